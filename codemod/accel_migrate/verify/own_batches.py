"""Does the batch size count per process? Then a step of several takes more samples than one of the original does."""

from __future__ import annotations

from collections.abc import Sequence

from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Difference


def times_as_large(original: Record, records: Sequence[Record]) -> int:
    """By how much the batches over all processes are larger than the original's; 1 where they are not."""
    first = [next((p.batches for p in record.passes if p.trains), []) for record in (original, *records)]
    if len(records) == 1 or not all(first):
        return 1
    whole, *parts = [batches[0] for batches in first]
    own = all(len(part) == len(whole) for part in parts) and len(set(parts)) == len(parts)
    return len(records) if own else 1


def difference(original: Record, times: int) -> Difference:
    whole = next(len(p.batches[0]) for p in original.passes if p.trains)
    return Difference("batch-size", f"a step takes {times * whole} samples where the original's has {whole}")


def reason(original: Record, times: int) -> str:
    """For the report, which compares with larger batches of the original."""
    whole = next(len(p.batches[0]) for p in original.passes if p.trains)
    return f"each process takes a batch of its own: {times * whole} samples in a step where the original has {whole} (the batch size counts per process); all else is compared with the original at that batch size"
