"""Calls of an accelerator that only some processes make, and calls that lose what they should keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from accel_migrate.verify import places
from accel_migrate.verify.job import Run
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Difference


def compare_calls(run: Run, records: Sequence[Record]) -> Iterator[Difference]:
    """One difference for each such call."""
    for name in sorted({name for record in records for name in record.calls}):
        counts = [len(record.calls.get(name, ())) for record in records]
        if len(set(counts)) > 1:
            most = max(range(len(counts)), key=counts.__getitem__)
            made = ", ".join(f"process {rank} {count} times" for rank, count in enumerate(counts))
            yield Difference("calls", f"{name} is not called by all: {made} ({_place(run, records[most].calls[name][0])})")
    for _, place in _faults(records):
        yield Difference("fault", f"{_place(run, place)} is wrong on any number of processes")


def reasons_of_calls(run: Run, records: Sequence[Record]) -> Iterator[str]:
    for name in sorted({name for record in records for name in record.calls}):
        made = [record.calls.get(name, []) for record in records]
        if len({len(calls) for calls in made}) > 1:
            file, _, line = max(made, key=len)[0].rpartition(":")
            branch = places.branch_for_some(run.folder / file, int(line)) if line else None
            where = f": `if {branch[1]}` ({places.named_line(run.folder / file, branch[0])}) lets only some processes come to it" if branch else ""
            yield f"{name} must be called by every process, each has a state of its own{where}"
    yield from (text for text, _ in _faults(records))


def _faults(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Each once, whichever processes make it."""
    return list(dict.fromkeys(fault for record in records for fault in record.faults))


def _place(run: Run, place: str) -> str:
    file, _, line = place.rpartition(":")
    if not line:
        return place or "somewhere"
    text, spot = places.line_text(run.folder / file, int(line)), places.spot(run.folder, file, int(line))
    return f"{spot} `{text}`" if text else spot
