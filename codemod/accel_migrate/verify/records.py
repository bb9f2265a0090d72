"""What a traced run has recorded, as plain data."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks.packing import unpack_numbers, unpack_rows


@dataclass(frozen=True)
class Step:
    """One optimizer step of one process (see `hooks.tracing`); `optimizer` is its number, norms are by parameter."""

    optimizer: int
    loss: float
    backwards: int
    rates: tuple[float, ...]
    gradients: tuple[float, ...]
    weights: tuple[float, ...]
    random: int = 0
    zeroed: int = 0


@dataclass
class Pass:
    """One pass over a loader: number of its data set, the indices of each batch, whether it trained, whether it ended.

    `skipped` counts the batches that were read before the first one that was trained on, in an order drawn at random.
    """

    data: int
    batches: list[tuple[int, ...]] = field(default_factory=list)
    trains: bool = False
    ended: bool = False
    skipped: int = 0


@dataclass
class Record:
    """One process of a run. `how` says how it ended: "ended", "stopped" after so many steps, or "" if neither.

    `names` are those of the parameters, by optimizer; `parts` tell what data sets that are parts of others consist of;
    `calls` the places of calls that every process should make; `faults` are calls that lose what they should keep;
    `gathers` says whether figures of the processes are put together, None if that is not known;
    `loaded` are states of another run that were loaded into what this one trains;
    `first_input` is the shape of what a module is given first in training, `first_evaluated` in evaluation.
    """

    steps: list[Step] = field(default_factory=list)
    passes: list[Pass] = field(default_factory=list)
    wrote: list[str] = field(default_factory=list)
    uses: frozenset[str] = frozenset()
    how: str = ""
    names: tuple[tuple[str, ...], ...] = ()
    parts: dict[int, int] = field(default_factory=dict)
    calls: dict[str, list[str]] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    gathers: bool | None = None
    loaded: list[dict[str, str]] = field(default_factory=list)
    first_input: tuple[int, ...] = ()
    first_evaluated: tuple[int, ...] = ()

    def name(self, step: Step, place: int) -> str:
        """Of the parameter at `place` in the optimizer that took `step`."""
        known = self.names[step.optimizer] if step.optimizer < len(self.names) else ()
        return known[place] if place < len(known) else f"parameter {place} of optimizer {step.optimizer}"


def read_records(streams: Path, processes: int) -> list[Record]:
    """The records of all processes of a run; what a killed process could not write is missing."""
    return [_read(streams / f"rank{rank}.jsonl") for rank in range(processes)]


def _read(path: Path) -> Record:
    record, passes = Record(), defaultdict[int, Pass](lambda: Pass(-1))
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            for entry in json.loads(line):
                _add(entry, record, passes)
        except json.JSONDecodeError:  # the end of a killed process
            break
    record.passes = [passes[number] for number in sorted(passes) if passes[number].batches]
    record.faults += _left_out(record)
    return record


def _add(line: dict[str, Any], record: Record, passes: dict[int, Pass]) -> None:
    if "step" in line:
        norms = unpack_numbers(line["norms"])
        half = len(norms) // 2
        record.steps.append(Step(line["step"], line["loss"], line["backwards"], tuple(line["lr"]), norms[:half], norms[half:], line["random"], line["zeroed"]))
    elif "batch" in line:
        passes[line["pass"]].data = line["data"]
        passes[line["pass"]].batches.append(unpack_rows(line["rows"]))
    elif "trains_in" in line:
        passes[line["trains_in"]].trains, passes[line["trains_in"]].skipped = True, line["skipped"]
    elif "pass_end" in line:
        passes[line["pass_end"]].ended = True
    elif "loaded" in line:
        record.loaded.append(line["loaded"])
    elif "first_input" in line:
        record.first_input = tuple(line["first_input"])
    elif "first_evaluated" in line:
        record.first_evaluated = tuple(line["first_evaluated"])
    elif "made_of" in line:
        record.parts[line["data"]] = line["made_of"]
    elif "called" in line:
        record.calls.setdefault(line["called"], []).append(line["at"])
    elif "fault" in line:
        record.faults.append((line["fault"], line["at"]))
    elif "gathers" in line:
        record.gathers = line["gathers"]
    elif "wrote" in line:
        record.wrote.append(line["wrote"])
    elif "end" in line:
        record.how, record.uses = line["end"], frozenset(line["uses"])
        record.names = tuple(tuple(names) for names in line["names"])


def _left_out(record: Record) -> list[tuple[str, str]]:
    """A pass that begins with batches which are read and not trained on, where others (which may read ahead) have fewer of them."""
    skipped = [p.skipped for p in record.passes if p.trains]
    more = max(skipped, default=0) - (min(skipped) if len(skipped) > 1 else 2)
    if more <= 0 or "load_state" not in record.calls:
        return []
    text = f"after load_state {more} batches are read and left out, but in an order that is drawn anew: they are not those which were trained on (skip_first_batches and a seedable sampler)"
    return [(text, record.calls["load_state"][0])]


def global_losses(records: Sequence[Record]) -> list[float]:
    """The loss of each step over all processes: what the averaged gradient is the gradient of."""
    return [sum(step.loss for step in steps) / len(records) for steps in zip(*(r.steps for r in records), strict=False)]
