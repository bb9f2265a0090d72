"""What the first step at which two trainings differ says about why they do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accel_migrate.verify.first_step import reasons_of_gradients
from accel_migrate.verify.records import Pass, Record, Step
from accel_migrate.verify.report import Comparison, Difference
from accel_migrate.verify.samples import read_alike

STEP = Step(optimizer=0, loss=1.0, backwards=1, rates=(0.1,), gradients=(3.0, 4.0), weights=(1.0, 2.0), zeroed=1)


def record(*sizes: int, steps: int = 2, **changes: object) -> Record:
    """The last step changed so; every batch of one of these sizes."""
    taken = [STEP] * (steps - 1) + [replace(STEP, **changes)]  # type: ignore[arg-type]
    return Record(taken, [Pass(0, [tuple(range(size)) for size in sizes], trains=True, ended=True)])


def reason(records: list[Record], step: int = 2) -> str:
    result = Comparison(len(records), differences=[Difference("gradient", "", step)])
    whole = [sum(len(r.passes[0].batches[place]) for r in records) for place in range(step)]
    return next(reasons_of_gradients(record(*whole, steps=step), records, result))


@pytest.mark.parametrize(
    ("sizes", "changes", "said"),
    [
        ([(4, 4), (4, 4)], {"gradients": (6.0, 8.0)}, "at step 2 every gradient is 2 times the original's"),
        ([(4, 3), (4, 2)], {"gradients": (6.3, 7.8)}, "multiplied by the number of processes"),
        ([(4, 3), (4, 2)], {"gradients": (3.3, 4.1)}, "unequal parts of the batch of step 2 (3 and 2 samples)"),
        ([(4, 4), (3, 3)], {"gradients": (3.3, 4.1)}, "the loss of step 2 is the same and its gradient is not"),
        ([(4, 4), (4, 4)], {"gradients": (3.3, 4.1), "zeroed": 0}, "gradients are not set to zero before step 2"),
    ],
    ids=["twice", "twice, in unequal parts", "unequal parts", "parts that were unequal before", "not set to zero"],
)
def test_reasons(sizes: list[tuple[int, ...]], changes: dict[str, object], said: str) -> None:
    assert said in reason([record(*each, **changes) for each in sizes])


@pytest.mark.parametrize(
    ("read", "alike"),
    [
        ([[(0, 1, 2, 3), (4, 5)]], True),
        ([[(3, 1, 2, 0), (4, 5)]], False),
        ([[(0, 1), (4,)], [(2, 3), (5,)]], True),
        ([[(2, 3), (5,)], [(1, 0), (4,)]], True),
        ([[(0, 4), (1,)], [(2, 3), (5,)]], False),
        ([[], []], False),
    ],
)
def test_batches_of_the_same_samples_are_told_from_shuffled_ones(read: list[list[tuple[int, ...]]], alike: bool) -> None:
    original, *records = (Record(passes=[Pass(0, batches, trains=True)]) for batches in ([(0, 1, 2, 3), (4, 5)], *read))
    assert read_alike(original, records) is alike
