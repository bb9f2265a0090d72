"""Right scripts are left alone; a fault that is put into one is found by the rule for it, and by few others."""

from __future__ import annotations

from pathlib import Path

import pytest

from check.mutations import FOLDER, MUTATIONS, Mutation, reported

TELL_MORE = {"collective-in-rank-guard": {"prepared-object-in-rank-guard"}, "scheduler-length-mismatch": {"prepared-twice"}}
"""What else is wrong with some of these scripts."""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_right_scripts_are_left_alone(path: Path) -> None:
    assert not reported(path.read_text())


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[f"{m.script}-{m.rule}-{i}" for i, m in enumerate(MUTATIONS)])
def test_a_fault_is_found_by_its_rule(mutation: Mutation) -> None:
    rules = reported(mutation.text)
    assert mutation.rule in rules
    assert rules - {mutation.rule} <= TELL_MORE.get(mutation.rule, set())
