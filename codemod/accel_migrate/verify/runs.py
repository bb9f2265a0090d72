"""The runs of one verification: traced, each only once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.merged import as_one
from accel_migrate.verify.records import Record, read_records
from accel_migrate.verify.warm import HANG_SECONDS, ForkingRunner


@dataclass(frozen=True)
class Request:
    """What to verify and how.

    `processes` for the migrated script; `steps` optimizer steps are run, 0 for all; `relative` difference that counts as
    none; `timeout` seconds for a run at most, and `hang_seconds` without any computation; `cpu` maps devices to the CPU; the original's batches are `batches` times as large; it runs on
    `original_processes`, more than one only where it trains on several itself.
    """

    original: Job
    migrated: Job
    processes: tuple[int, ...] = (1, 2)
    steps: int = 20
    relative: float = 1e-4
    timeout: float = 600.0
    hang_seconds: float = HANG_SECONDS
    cpu: bool = True
    seed: int = 0
    batches: int = 1
    original_processes: int = 1


@dataclass(frozen=True)
class Traced:
    """A run with the records of its processes."""

    run: Run
    records: list[Record] = field(default_factory=list)


_TIMES_THE_FIRST, _LEAST_SECONDS = 15.0, 60.0
Tell = Callable[[str], None]


class Runs:
    """Runs what is asked for and remembers it; `tell` hears of each run that starts."""

    def __init__(self, request: Request, warm: ForkingRunner, tell: Tell) -> None:
        self.request, self.warm, self.tell = request, warm, tell
        self._done: dict[tuple[object, ...], Traced] = {}

    def with_larger_batches(self, times: int) -> Runs:
        """The same, with batches of the original so many times as large."""
        return self._with(replace(self.request, batches=times))

    def with_original_on(self, processes: int) -> Runs:
        """The same, with the original on so many processes."""
        return self._with(replace(self.request, original_processes=processes))

    def _with(self, request: Request) -> Runs:
        other = Runs(request, self.warm, self.tell)
        other._done = self._done
        return other

    def original(self, *, control: bool = False, nudged: bool = False, again: bool = False, off: tuple[str, ...] = (), steps: int | None = None) -> Traced:
        """As one process; the control run reverses the samples in each batch, the nudged one begins with other last digits,
        and one that runs `again` does nothing else than the first."""
        what = "control run (samples reversed in each batch)" if control else "original"
        what = "control run (last digits of all weights changed)" if nudged else what
        what += " again" if again else ""
        what += f" with batches {self.request.batches} times as large" if self.request.batches > 1 else ""
        processes = self.request.original_processes
        what += f" on {processes} processes" if processes > 1 else ""
        traced = self._run(self.request.original, processes, control, off, steps, what, nudged, again)
        return replace(traced, records=[as_one(traced.records)])

    def migrated(self, processes: int, *, off: tuple[str, ...] = (), steps: int | None = None) -> Traced:
        """On so many processes."""
        what = f"migrated on {processes} process{'es' if processes > 1 else ''}"
        return self._run(self.request.migrated, processes, False, off, steps, what)

    def loading(self, files: Sequence[Path], processes: int = 0) -> Traced:
        """A short run that loads these files at its end: of the migrated script on so many processes, or of the original (0)."""
        job = self.request.migrated if processes else self.request.original
        processes = processes or self.request.original_processes
        self.tell(f"{'original' if job is self.request.original else 'migrated'}, which loads the checkpoints of the other")
        optimizers = len(self.original().records[0].names)
        return self._started(job, processes, False, (), max(optimizers, 1), 1, False, tuple(map(str, files)))

    def _run(self, job: Job, processes: int, control: bool, off: tuple[str, ...], steps: int | None, what: str, nudged: bool = False, again: bool = False) -> Traced:
        steps = self.request.steps if steps is None else steps
        batches = self.request.batches if job is self.request.original else 1
        key = (job is self.request.original, processes, control, off, steps, batches, nudged, again)
        if key not in self._done:
            self.tell(what + (f", without {' and '.join(off)}" if off else ""))
            self._done[key] = self._started(job, processes, control, off, steps, batches, nudged)
        return self._done[key]

    def _limit(self) -> float:
        """Seconds for a run: of the first one all that is allowed, of the others so many times what that took."""
        first = next(iter(self._done.values()), None)
        return self.request.timeout if first is None else min(self.request.timeout, max(_LEAST_SECONDS, _TIMES_THE_FIRST * first.run.seconds))

    def _started(self, job: Job, processes: int, control: bool, off: tuple[str, ...], steps: int, batches: int, nudged: bool, loads: tuple[str, ...] = ()) -> Traced:
        request = self.request
        on_cpu = {"CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true"} if request.cpu else {}
        run = self.warm.run(
            replace(job, env={"PYTHONHASHSEED": "0", **on_cpu, **job.env}),
            processes,
            timeout=self._limit(),
            hang_seconds=request.hang_seconds,
            reverse_batches=control,
            trace={"steps": steps, "seed": request.seed, "cpu": request.cpu, "off": list(off), "batches": batches, "nudged": nudged, "loads": list(loads), "inline": job.starts_processes},
        )
        return Traced(run, read_records(Path(run.streams), processes))
