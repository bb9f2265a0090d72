"""Several processes of an original that trains on several itself, as the one process which the migrated script is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from accel_migrate.verify.records import Pass, Record, global_losses


def as_one(records: Sequence[Record]) -> Record:
    """Global losses, and the batches of all; what all must have alike is process 0's."""
    first = records[0]
    if len(records) == 1:
        return first
    steps = [replace(step, loss=loss) for step, loss in zip(first.steps, global_losses(records), strict=False)]
    passes = [_together(parts) for parts in zip(*(record.passes for record in records), strict=False)]
    wrote = [name for record in records for name in record.wrote]
    return replace(first, steps=steps, passes=passes, wrote=wrote, uses=frozenset().union(*(record.uses for record in records)))


def _together(parts: Sequence[Pass]) -> Pass:
    batches = [_rows(rows) for rows in zip(*(part.batches for part in parts), strict=False)]
    return replace(parts[0], batches=batches, trains=any(part.trains for part in parts), ended=all(part.ended for part in parts))


def _rows(parts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return parts[0] if all(part == parts[0] for part in parts) else tuple(row for part in parts for row in part)
