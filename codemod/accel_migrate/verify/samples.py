"""Which samples the processes train on together, against the original's batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from accel_migrate.verify.records import Pass, Record
from accel_migrate.verify.report import Difference


def compare_samples(original: Record, records: Sequence[Record]) -> list[Difference]:
    """The first pass of training in which samples are seen twice, not at all, or in other batches."""
    if len(records) == 1:
        return []
    theirs = [p for p in original.passes if p.trains]
    ours = [[p for p in record.passes if p.trains] for record in records]
    for number, (one, *others) in enumerate(zip(theirs, *ours, strict=False), 1):
        found = _read_by_all(one, others, original, records) or _counts(number, one, others) or _batches(number, one, others)
        if found:
            return [found]
    return []


def read_alike(original: Record, records: Sequence[Record]) -> bool:
    """Whether every batch of training that was recorded holds the original's samples."""
    passes = [[p for p in record.passes if p.trains] for record in (original, *records)]
    whole = bool(passes[0]) and all(len(each) == len(passes[0]) and all(p.batches for p in each) for each in passes)
    if len(records) == 1:
        return whole and [p.batches for p in passes[0]] == [p.batches for p in passes[1]]
    return whole and not any(_batches(number, *each) for number, each in enumerate(_by_pass(passes), 1))


def _by_pass(passes: Sequence[Sequence[Pass]]) -> Iterator[tuple[Pass, Sequence[Pass]]]:
    return ((one, others) for one, *others in zip(*passes, strict=True))


def train_on_the_same(original: Record, records: Sequence[Record]) -> bool:
    """Whether every process gives its model all that the original gives it."""
    cut = any(record.first_input != original.first_input for record in records)
    return not cut and same_losses_everywhere(records)


def same_losses_everywhere(records: Sequence[Record]) -> bool:
    """Whether the processes compute bitwise the same losses: those of the same samples."""
    steps = list(zip(*(record.steps for record in records), strict=False))
    return len(records) > 1 and bool(steps) and all(len({step.loss for step in each}) == 1 for each in steps)


def _read_by_all(one: Pass, others: Sequence[Pass], original: Record, records: Sequence[Record]) -> Difference | None:
    """Every process reads the same. A prepared loader may do so and cut the batches afterwards."""
    if not one.batches or any(other.batches[0] != others[0].batches[0] for other in others):
        return None
    if not train_on_the_same(original, records):
        return None
    return Difference("samples", f"every process trains on the same samples: each is seen {len(others)} times")


def _counts(number: int, one: Pass, others: Sequence[Pass]) -> Difference | None:
    """Of passes that came to their end; a process without samples of its own borrows one, which counts nothing."""
    if not one.ended or not all(other.ended for other in others):
        return None
    if min(len(batch) for batch in one.batches) < len(others):
        return None
    expected = Counter(row for batch in one.batches for row in batch)
    got = Counter(row for _, rows in _taken(one, others) for row in rows)
    got.update(row for other in others for batch in other.batches[len(one.batches) :] for row in batch)
    if _with_replacement(one):
        return _other_draws(number, expected, got)
    twice, never = sum(n - 1 for n in got.values()), len(expected) - len(got)
    if not twice and never <= 0:
        return None
    text = f"in pass {number} of training {twice} samples are seen too often and {max(never, 0)} of {len(expected)} not at all"
    return Difference("samples", text)


def _other_draws(number: int, expected: Counter[int], got: Counter[int]) -> Difference | None:
    if got.total() != expected.total():
        return Difference("samples", f"pass {number} of training draws {got.total()} samples instead of {expected.total()}")
    text = f"pass {number} of training draws {(got - expected).total()} other samples than the original's, which draws some more than once too"
    return Difference("order", text) if got != expected else None


def _with_replacement(one: Pass) -> bool:
    """Whether samples are drawn anew each time, so that another pass repeats others."""
    return max(Counter(row for batch in one.batches for row in batch).values()) > 1


def _batches(number: int, one: Pass, others: Sequence[Pass]) -> Difference | None:
    for place, (batch, rows) in enumerate(_taken(one, others), 1):
        if len(batch) < len(others):
            continue
        if len(rows) != len(batch):
            text = f"batch {place} of pass {number} has {len(rows)} samples over all processes instead of {len(batch)}"
            return Difference("samples", text)
        if Counter(rows) != Counter(batch):
            twice = len(rows) - len(set(rows)) > len(batch) - len(set(batch)) and not _with_replacement(one)
            how = "holds some samples twice" if twice else "holds other samples than the original's"
            return Difference("samples" if twice else "order", f"batch {place} of pass {number} {how}")
    return None


def _taken(one: Pass, others: Sequence[Pass]) -> Iterator[tuple[tuple[int, ...], Sequence[int]]]:
    """The original's batches, each with the samples that the processes take of it.

    Where every process reads the whole batch, each gets its part after it is read.
    """
    for batch, *parts in zip(one.batches, *(other.batches for other in others), strict=False):
        is_cut = sum(map(len, parts)) == len(batch)  # parts may be equal where samples are drawn with replacement
        yield batch, parts[0] if not is_cut and all(part == parts[0] for part in parts) else [row for part in parts for row in part]
