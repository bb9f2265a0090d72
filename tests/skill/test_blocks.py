"""Every block of Python in the skill: right ones compute the same on one process and on two, wrong ones do not."""

from __future__ import annotations

import pytest

from accel_migrate.check.check import Wanted, check
from accel_migrate.edits import Severity
from codemod.memory import program
from runtime.ranks import RanksFailed
from skill.blocks import Block, contexts, needs_accelerate, python_blocks
from skill.running import results, same

BLOCKS = [block for block in python_blocks() if not needs_accelerate(block)]
OF_ACCELERATE = [block for block in python_blocks() if needs_accelerate(block)]
FAULTS = [block for block in python_blocks() if block.halves[0] and block.rule]
SHORT = 2.5
"""Seconds for what may hang; a program that is still running then has not computed the result either."""


def name(block: Block) -> str:
    return block.name


@pytest.mark.parametrize("block", BLOCKS, ids=name)
def test_right_blocks_compute_the_same_on_two_processes_as_on_one_and_wrong_ones_do_not(block: Block) -> None:
    wrong, right = block.halves
    (expected,) = results(block.inside(right), 1)
    assert block.is_program or expected is not None, "the program of the block computes no result"
    for got in results(block.inside(right), 2):
        assert got is None or same(got, expected), (got, expected)  # None: what only one process keeps
    if wrong:
        assert not all(same(got, expected) for got in outcome(block.inside(wrong)))


def outcome(text: str) -> list[object]:
    """What a program computes on two processes; a word where they fail or hang."""
    try:
        return results(text, 2, seconds=SHORT)
    except RanksFailed:
        return ["failed"]


@pytest.mark.parametrize("block", OF_ACCELERATE, ids=name)
def test_blocks_for_accelerate_do_so_with_accelerate(block: Block) -> None:
    pytest.importorskip("accelerate")
    test_right_blocks_compute_the_same_on_two_processes_as_on_one_and_wrong_ones_do_not(block)


@pytest.mark.parametrize("block", FAULTS, ids=name)
def test_the_linter_finds_what_is_wrong_and_nothing_in_what_is_right(block: Block) -> None:
    wrong, right = (check(program(block.inside(half)), Wanted()).faults for half in block.halves)
    assert block.rule in {fault.rule for fault in wrong}
    assert not [fault.rule for fault in right if fault.severity is not Severity.INFO or fault.rule == block.rule]


def test_every_context_belongs_to_a_block() -> None:
    for page in {block.page for block in python_blocks()}:
        known = {block.name.partition(": ")[2] for block in python_blocks() if block.page == page}
        assert set(contexts(page)) <= known, page
