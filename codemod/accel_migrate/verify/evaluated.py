"""What was read without training on it, against what the original read: why figures of an evaluation differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from accel_migrate.verify.records import Pass, Record


def reason_in_samples(original: Record, records: Sequence[Record]) -> str:
    """For the first evaluation whose samples are not the original's, each once; empty if there is none."""
    if any(record.parts != records[0].parts for record in records):
        return "each process holds other samples: the data is split or shuffled with random numbers that differ between the processes, before it is handed out"
    if records[0].gathers is False:
        return "they are computed from one process's samples: nothing is gathered or reduced (gather_for_metrics)"
    theirs = [p for p in original.passes if not p.trains and p.ended]
    ours = [[p for p in record.passes if not p.trains and p.ended] for record in records]
    for one, *others in zip(theirs, *ours, strict=False):
        cut = any(record.first_evaluated != original.first_evaluated for record in records)
        found = _of_pass(one, others, cut)
        if found:
            return found
    return ""


def _of_pass(one: Pass, others: Sequence[Pass], cut: bool) -> str:
    """`cut` says that the model is given another number of rows than the original's: whole batches are cut after they are read."""
    expected = Counter(row for batch in one.batches for row in batch)
    read = [Counter(row for batch in other.batches for row in batch) for other in others]
    if len(read) > 1 and all(rows == expected for rows in read):
        return "" if cut else f"the loader of the evaluation is not prepared: every process reads all of its {expected.total()} samples, and what is gathered or summed counts {len(read)} times"
    more = _counted(one, others) - expected
    if more and all(rows for rows in read) and not expected - sum(read, Counter[int]()):
        return f"{more.total()} samples are read twice to fill up the last batches, and count twice (gather_for_metrics leaves them out)"
    return ""


def _counted(one: Pass, others: Sequence[Pass]) -> Counter[int]:
    """How often each sample is evaluated; a batch that every process reads whole, to cut it afterwards, counts once."""
    counted = Counter[int]()
    for batch, *parts in zip_longest(one.batches, *(other.batches for other in others), fillvalue=()):
        is_whole = len(batch) >= len(parts) and all(part == batch for part in parts)
        counted.update(batch if is_whole else [row for part in parts for row in part])
    return counted
