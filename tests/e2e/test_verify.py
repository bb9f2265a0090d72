"""`accel verify`: right migrations are the same, broken ones are caught, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job
from accel_migrate.verify.report import DIFFERENT, EXPECTED, SAME, Comparison
from accel_migrate.verify.runs import Request
from accel_migrate.verify.verify import verify
from accel_migrate.verify.warm import ForkingRunner
from e2e.mutations import MUTATIONS, Mutation
from e2e.places import PRELOAD

VERIFIED = Path(__file__).parent / "verified"
QUICK = {"loader not prepared", "evaluation not gathered", "exception on one process"}
"""Broken in three different ways; the others are slow together."""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), preload=PRELOAD) as warm:
        yield warm


def compared(warm: ForkingRunner, migrated: Job, original: Job | None = None, processes: int = 2) -> Comparison:
    request = Request(original or Job(VERIFIED, "before.py"), migrated, (processes,), steps=0, hang_seconds=5, timeout=100)
    return verify(request, warm).comparisons[0]


def mutated(mutation: Mutation) -> Job:
    text = (VERIFIED / "after.py").read_text()
    for old, new in mutation.replaced:
        assert old in text, f"{mutation.name}: nothing to replace"
        text = text.replace(old, new)
    return Job(VERIFIED, "after.py", changed={"after.py": text})


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_right_migration_is_the_same(warm: ForkingRunner, processes: int) -> None:
    result = compared(warm, Job(VERIFIED, "after.py"), processes=processes)
    assert (result.verdict, result.differences, result.steps) == (SAME, [], 12)


@pytest.mark.parametrize("mutation", [pytest.param(m, id=m.name, marks=[] if m.name in QUICK else [pytest.mark.slow]) for m in MUTATIONS])
def test_a_broken_migration_is_caught_with_its_reason(warm: ForkingRunner, mutation: Mutation) -> None:
    result = compared(warm, mutated(mutation))
    said = "\n".join([*(f"{d.kind}: {d.text}" for d in result.differences), *result.reasons])
    if not mutation.kind:
        assert result.verdict == SAME, said
        return
    assert re.search(mutation.kind, " ".join(d.kind for d in result.differences)), said
    assert re.search(mutation.reason, said), said
    assert result.verdict == (EXPECTED if mutation.kind == "order" else DIFFERENT), said
