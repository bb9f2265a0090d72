"""Where each process of a failed run stands: from tracebacks and from the stacks that were dumped when it was ended."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from accel_migrate.verify import places
from accel_migrate.verify.job import Run

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,? in (?P<name>\S+))?')
_COLLECTIVES = ["all_reduce", "all_gather", "all_gather_object", "all_gather_into_tensor", "all_to_all", "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter", "scatter", "scatter_object_list", "recv", "send", "new_group", "init_process_group", "destroy_process_group", "wait"]
_OUT_OF_STEP = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Invalid mt19937 state",
    "op.preamble.length",
    "Received data size doesn't match expected size",
    "Read timeout",
)


@dataclass(frozen=True)
class Standing:
    """Where a process stands: `what` is "stands", "failed", "ended" or "stopped"; `error` is the exception's last line.

    `file` and `line` are the innermost place in the script's own files, which reports name `place`; `call` the collective it is in.
    """

    rank: int
    what: str
    file: str = ""
    line: int = 0
    call: str = ""
    error: str = ""
    text: str = ""
    place: str = ""

    def __str__(self) -> str:
        at = f" at {self.place}" if self.place else ""
        at += f" `{self.text}`" if self.text else ""
        inside = f" in {self.call}" if self.call else ""
        if self.what == "failed":
            return f"process {self.rank} failed{at}: {self.error}"
        return f"process {self.rank} {self.what}{inside}{at}"


def standings(run: Run, processes: int) -> list[Standing]:
    """One for each process."""
    return [_standing(run, rank) for rank in range(processes)]


def describe(run: Run, processes: int) -> str:
    """One message about a run that hung, crashed or ran out of time."""
    found = standings(run, processes)
    where = "; ".join(map(str, found))
    failed = [s for s in found if s.what == "failed"]
    causes = [s for s in failed if not _is_out_of_step(s.error)]
    if causes:
        cause = next((s for s in causes if s.rank == run.first_failed), causes[0])
        others = "; ".join(str(s) for s in found if s is not cause and s.what != "failed")
        return f"{cause}" + (f" (meanwhile {others})" if others else "")
    if failed:
        return f"collectives are out of step: {where}{_odd_one(found, run.folder)}"
    if run.hung:
        return f"nothing goes on any more: {where}{_odd_one(found, run.folder)}"
    return f"it was ended after {run.seconds:.0f} s: {where}" if run.timed_out else f"it ended with code {run.exit_code}: {where}"


def odd_one(run: Run, processes: int) -> Iterator[str]:
    """What the code says about the process that is not where the others are, if no error of the script explains it."""
    found = standings(run, processes)
    if not any(s.what == "failed" and not _is_out_of_step(s.error) for s in found):
        said = _odd_one(found, run.folder)
        yield from [said.removeprefix("; ")] if said else []


def _odd_one(found: list[Standing], folder: Path) -> str:
    """The process which is not where the others are, and what the code says about it."""
    if len(found) < 2:
        return ""
    for standing in found:
        branch = places.branch_for_some(folder / standing.file, standing.line) if standing.file else None
        if branch is not None:
            return f"; process {standing.rank} is the odd one: `if {branch[1]}` ({places.named_line(folder / standing.file, branch[0])}) lets only some processes come here"
    for standing, other in itertools.permutations(found, 2):
        loop = places.loop_left(folder / other.file, other.line, standing.line) if standing.file == other.file != "" else 0
        if loop:
            return f"; process {standing.rank} has left the loop of {places.named_line(folder / other.file, loop)} and process {other.rank} has not"
    marks = [(standing.what, standing.place) for standing in found]
    odd = [standing for standing, mark in zip(found, marks, strict=True) if marks.count(mark) == 1]
    odd = [standing for standing in odd if standing.what == "ended" or not standing.call] or odd
    return f"; process {odd[0].rank} is the odd one" if len(odd) == 1 else ""


def _is_out_of_step(error: str) -> bool:
    return any(text in error for text in _OUT_OF_STEP)


def _standing(run: Run, rank: int) -> Standing:
    code = run.exit_codes[rank] if rank < len(run.exit_codes) else run.exit_code
    stack = _read(run.streams / f"rank{rank}.stack")
    if stack:
        frames = _main_thread(stack)
        return _placed(Standing(rank, "stands", call=_collective(frames)), frames, run.folder)
    if code:
        error, frames = _traceback(_read(run.streams / f"rank{rank}.err"))
        standing = Standing(rank, "failed", call=_collective(frames), error=error or f"exit code {code}")
        return _placed(standing, frames, run.folder)
    stopped = (run.streams / f"rank{rank}.stopped").exists()
    return Standing(rank, "stopped" if stopped else "ended")


def _placed(standing: Standing, frames: Frames, folder: Path) -> Standing:
    file, line = _own(frames, folder)
    return replace(standing, file=file, line=line, text=places.line_text(folder / file, line), place=places.spot(folder, file, line)) if file else standing


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


Frames = list[tuple[str, int, str]]


def _main_thread(dump: str) -> Frames:
    """Innermost first: faulthandler marks the thread that was interrupted, else the main one comes last."""
    threads = re.split(r"\n(?=(?:Current thread|Thread) )", dump)
    chosen = next((t for t in threads if t.startswith("Current thread")), threads[-1])
    return _frames(chosen)


def _frames(text: str) -> Frames:
    matches = filter(None, (_FRAME.match(line) for line in text.splitlines()))
    return [(m["file"], int(m["line"]), m["name"] or "") for m in matches]


def _traceback(errors: str) -> tuple[str, Frames]:
    """The last exception's line and its frames, innermost first."""
    _, mark, last = errors.rpartition("Traceback (most recent call last):")
    if not mark:
        lines = [line.strip() for line in errors.splitlines() if line.strip()]
        return (lines[-1] if lines else ""), []
    ends = [line for line in last.splitlines() if line and not line.startswith(" ")]
    return (ends[0].strip() if ends else ""), _frames(last)[::-1]


def _own(frames: Frames, folder: Path) -> tuple[str, int]:
    """The innermost place in the script's own files."""
    tops = {str(folder), str(folder.resolve())}
    for file, line, _ in frames:
        top = next((top for top in tops if file.startswith(top + "/")), None)
        if top is not None:
            return file[len(top) + 1 :], line
    return "", 0


def _collective(frames: Frames) -> str:
    """The outermost call of a collective, as the script knows it."""
    for _, _, name in reversed(frames):
        if name in _COLLECTIVES or name in _OF_ACCELERATOR:
            return name
    return ""


_OF_ACCELERATOR = {
    "backward", "gather_for_metrics", "global_mean", "global_sum", "wait_for_everyone", "save_state", "prepare", "pad_across_processes",
}
