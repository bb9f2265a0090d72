"""Every rule has a page, whose examples show what it reports, what it leaves alone, and what its fix makes."""

from __future__ import annotations

import pytest

from accel_migrate.check.check import Wanted
from accel_migrate.check.rules import all_checks
from accel_migrate.edits import Severity
from accel_migrate.places import line_of
from check.pages import DOCUMENTED, Example, examples, fixes, table

CHECKS = {check.id: check for check in all_checks()}


def name(example: Example) -> str:
    return f"{example.page}-{example.kind}"


def only(example: Example) -> Wanted:
    return Wanted(select=frozenset({example.page}))


def test_every_rule_has_a_page_with_both_kinds_of_examples() -> None:
    assert set(DOCUMENTED.pages()) == set(CHECKS)
    for page in CHECKS:
        kinds = {example.kind for example in examples() if example.page == page}
        assert "Bad" in kinds and kinds & {"Good", "Fixed"}, page


def test_pages_begin_with_id_title_and_severity() -> None:
    for page, text in DOCUMENTED.pages().items():
        check = CHECKS[page]
        assert text.startswith(f"# {page}\n\n{check.title}. Severity: {check.severity.value}."), page
        assert ("For scripts that import" in text.split("\n")[2]) == (len(check.libraries) == 1), page


def test_the_index_lists_the_rules() -> None:
    assert table() in DOCUMENTED.index.read_text()


@pytest.mark.parametrize("example", examples("Bad"), ids=name)
def test_marked_lines_are_reported(example: Example) -> None:
    faults = example.checked(wanted=only(example)).faults
    assert {line_of(fault) for fault in faults} == example.marked_lines
    assert all(fault.message and fault.advice for fault in faults)


@pytest.mark.parametrize("example", examples("Good", "Fixed"), ids=name)
def test_right_examples_have_no_faults(example: Example) -> None:
    assert not example.checked(wanted=only(example)).faults
    faults = [f for f in example.checked().faults if f.severity is not Severity.INFO]
    assert example.kind == "Fixed" or not faults, [(line_of(f), f.rule) for f in faults]


@pytest.mark.parametrize("bad, fixed", fixes(), ids=[bad.page for bad, _ in fixes()])
def test_a_fix_makes_the_block_below(bad: Example, fixed: Example) -> None:
    assert bad.mended() == fixed.code


@pytest.mark.parametrize("example", examples("Bad"), ids=name)
def test_rules_of_both_libraries_report_for_both(example: Example) -> None:
    if "from accelerate" in example.code:
        pytest.skip("a setting that accel_runtime may not have")
    if "DistributedSampler" in example.code:
        pytest.skip("accel_runtime sees that the loader shares out its samples")
    faults = example.checked("accel_runtime", only(example)).faults
    assert {line_of(f) for f in faults} == (example.marked_lines if len(CHECKS[example.page].libraries) == 2 else set())
