"""docs/rules: every id has a page, and the examples on it are what the tool does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import accel_migrate
from accel_migrate.edits import Severity
from accel_migrate.rules import all_rules
from codemod.rule_pages import DOCUMENTED, Example, examples, prelude

_FINDING_ID = re.compile(r'\brule="([a-z-]+)"')
EXAMPLES = examples()


def ids_of_findings() -> set[str]:
    """Ids which findings have without being a rule's."""
    folder = Path(accel_migrate.__file__).parent
    return {found for path in folder.rglob("*.py") for found in _FINDING_ID.findall(path.read_text())}


def of_kind(kind: str) -> list[pytest.param]:
    """The examples of one kind with the one that follows each on its page (None after the last)."""
    following = [*EXAMPLES[1:], None]
    pairs = [(e, f if f is not None and f.page == e.page else None) for e, f in zip(EXAMPLES, following, strict=True)]
    return [pytest.param(e, f, id=f"{e.page}-{number}") for number, (e, f) in enumerate(pairs) if e.kind == kind]


def test_each_id_has_a_page_and_each_page_an_id() -> None:
    assert set(DOCUMENTED.pages()) == {rule.id for rule in all_rules()} | ids_of_findings()


def test_the_index_links_each_page_once() -> None:
    assert sorted(re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\) \|", DOCUMENTED.index.read_text(), re.MULTILINE)) == sorted(
        DOCUMENTED.pages()
    )


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_page_starts_with_the_title_of_its_rule(rule: object) -> None:
    heading, _, title = DOCUMENTED.pages()[rule.id].replace("`", "").split("\n")[:3]
    assert (heading, title) == (f"# {rule.id}", f"{rule.title}.")


@pytest.mark.parametrize("page", DOCUMENTED.pages())
def test_a_page_says_why_shows_an_example_and_says_when_it_holds_back(page: str) -> None:
    text = DOCUMENTED.pages()[page]
    assert re.search(r"^\*\*Why( it matters)?\.\*\* ", text, re.MULTILINE)
    assert "\n## When it holds back\n" in text
    assert any(example.page == page and example.kind in {"Before", "Finding"} for example in EXAMPLES)


@pytest.mark.parametrize(("before", "after"), of_kind("Before"))
def test_before_becomes_after(before: Example, after: Example | None) -> None:
    assert after is not None and after.kind == "After"
    assert before.after() == after.code


@pytest.mark.parametrize(("before", "after"), of_kind("Before"))
def test_before_leaves_only_the_marked_lines_to_know_of(before: Example, after: Example | None) -> None:
    findings = before.migrated().findings
    assert {finding.node.lineno for finding in findings} == before.marked_lines
    assert all(finding.severity is Severity.INFO for finding in findings)


@pytest.mark.parametrize(("example", "instead"), of_kind("Finding"))
def test_the_finding_is_at_the_marked_line(example: Example, instead: Example | None) -> None:
    found = {(finding.rule, finding.node.lineno) for finding in example.migrated().findings}
    assert found == {(example.page, line) for line in example.marked_lines}
    assert found


@pytest.mark.parametrize(("example", "following"), of_kind("Instead"))
def test_what_to_write_instead_leaves_no_finding(example: Example, following: Example | None) -> None:
    result = example.migrated()
    assert result.status == "changed"
    assert not result.findings


def test_the_lines_before_short_examples_become_what_the_index_shows() -> None:
    loop = "for x, y in loader:\n    F.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
    short = next(e for e in EXAMPLES if e.page == "clip-gradients")
    whole = Example("", "Before", prelude() + "\n" + loop, short.options)
    assert whole.after().startswith(prelude(1) + "\n")
