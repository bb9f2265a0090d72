"""What a traced run records, without a change to the script: one file for each process, lists of JSON objects, and the final state.

| line | holds |
| --- | --- |
| `{"step", "loss", "backwards", "zeroed", "lr", "norms", "random"}` | an optimizer step (its optimizer's number); `loss` is the sum of the losses of the backwards since the last step, each times the gradient it started with: the mean of it over processes is what the averaged gradient belongs to; `zeroed` counts the calls of `zero_grad`; `norms` are those of the gradients, then those of the parameters (see `packing`); `random` tells states of the random stream apart, in the first steps |
| `{"batch", "data", "pass", "rows"}` | a batch read by a loader: the number of its data set, of the pass over it, and the samples' indices |
| `{"pass_end"}` | a pass has come to its end |
| `{"first_input"}`, `{"first_evaluated"}` | shape of the first tensor that a module is given in training, and in evaluation |
| `{"data", "made_of"}` | what a data set that is part of another consists of |
| `{"called", "at"}`, `{"fault", "at"}` | see `accelerators` |
| `{"loaded"}` | at the end: a state that another run saved, loaded into what this one trains (see `loading`) |
| `{"gathers"}` | whether an accelerator has gathered or reduced anything |
| `{"wrote"}` | a file of the scratch copy opened for writing |
| `{"end", "uses", "names"}` | the script ended, or was stopped; which sources of randomness and which layers it has; names of parameters by optimizer |
"""

from __future__ import annotations

import atexit
import os
import time
from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks import packing
from accel_migrate.verify.hooks.leaving import leave_together

_FLUSH_SECONDS = 0.25
"""What a killed process loses of its record at most."""


class Recorder:
    """Writes the lines of one process, and ends it after `limit` optimizer steps (0: never)."""

    def __init__(self, out: Path, rank: int, processes: int, limit: int) -> None:
        self.out, self.rank, self.processes, self.limit = out, rank, processes, limit
        self.steps = 0
        self.loads: list[str] = []
        self._waiting: list[dict[str, Any]] = []
        self._is_fork = False
        os.register_at_fork(after_in_child=self._forked)
        self._file = open(out / f"rank{rank}.jsonl", "w", encoding="utf-8")  # noqa: SIM115
        self._ended = False
        self._flushed = 0.0

    def write(self, **fields: Any) -> None:
        """What happens in loader workers, which are forks of the process, is left out."""
        if not self._is_fork:
            self._waiting.append(fields)

    def flush(self) -> None:
        """Encode and write what waits: one by one would cost more than it takes to train a small model."""
        if not self._is_fork and not self._file.closed:
            self._file.write(packing.packed(self._waiting))
            self._waiting.clear()
            self._file.flush()

    def note_step(self, **fields: Any) -> None:
        self.write(**fields)
        now = time.monotonic()
        if now - self._flushed > _FLUSH_SECONDS:
            self._flushed = now
            self.flush()
        self.steps += 1
        if self.steps == self.limit:
            self.stop()

    def _forked(self) -> None:
        self._is_fork = True

    def end(self, how: str) -> None:
        """Write what is known only now; once."""
        if self._ended or self._is_fork:
            return
        self._ended = True
        from accel_migrate.verify.hooks.loading import load_all
        from accel_migrate.verify.hooks.state import parameter_names, save_state, uses

        if self.steps:
            save_state(self.out / f"rank{self.rank}.state")
        self.write(end=how, uses=sorted(uses()), names=parameter_names())
        for found in load_all(self.loads) if self.rank == 0 else ():
            self.write(loaded=found)
        self.flush()

    def stop(self) -> None:
        """Leave at once, together with the others."""
        self.end("stopped")
        leave_together(self.out, self.rank, self.processes)


def install(settings: dict[str, Any], out: Path, rank: int, processes: int) -> None:
    """Seed, trace and switch off what `settings` name: {"steps", "seed", "cpu", "off", "batches", "nudged", "loads", "inline", "folder", "temporary", "home"}."""
    from accel_migrate.verify.hooks import (
        accelerators,
        batch_order,
        batches,
        cpu,
        first_input,
        inline,
        nudge,
        seeds,
        state,
        steps,
        switches,
        written,
    )

    recorder = Recorder(out, rank, processes, settings["steps"])
    recorder.loads = settings["loads"]
    if settings["cpu"]:
        cpu.map_to_cpu()
    if settings["inline"]:
        inline.run_in_place(rank, processes)
    seeds.make_deterministic(settings["seed"])
    switches.switch_off(settings["off"])
    if settings["batches"] > 1:
        batch_order.enlarge_batches(settings["batches"])
    if settings["nudged"]:
        nudge.nudge_weights()
    _name_parameters_in_errors(processes)
    state.watch()
    batches.trace(recorder)
    first_input.trace(recorder)
    traced = steps.trace(recorder)
    accelerators.trace(recorder, traced, os.path.realpath(settings["folder"]))
    written.trace(lambda file: recorder.write(wrote=file), {settings["folder"]: "", settings["temporary"]: "temporary files"}, settings["home"])
    atexit.register(recorder.end, "ended")


def _name_parameters_in_errors(processes: int) -> None:
    """DDP then says which parameters got no gradient."""
    if processes > 1:
        import torch.distributed as dist

        dist.set_debug_level(dist.DebugLevel.INFO)
