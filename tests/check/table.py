"""Precision and recall of each rule on the project's own cases: whole wrong scripts, faults put into right ones, the examples of the pages.

`PYTHONPATH=codemod:tests python -m check.table` prints the table; it takes about a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from accel_migrate.check.check import Wanted, check
from accel_migrate.check.rules import all_checks
from accel_migrate.edits import Severity
from accel_migrate.places import line_of
from check.mutations import FOLDER, MUTATIONS, reported
from check.pages import examples
from check.test_cases import CASES, expected, unmarked_case
from check.test_mutations import TELL_MORE
from codemod.memory import program


@dataclass
class Tally:
    """Reports by rule: right ones, wrong ones, and those that did not come."""

    found: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)

    def add(self, wanted: Iterable[str], got: Iterable[str], also_true: Iterable[str] = ()) -> None:
        """Count one place or script: which rules should report it, and which do."""
        wanted, got = set(wanted), set(got)
        self.found.update(wanted & got)
        self.missed.update(wanted - got)
        self.false.update(got - wanted - set(also_true))

    def lines(self, rules: Iterable[str]) -> Iterator[str]:
        """A row of a Markdown table for each rule, and one for all of them."""
        yield "| rule | faults | found | recall | false | precision |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for rule in rules:
            yield self._line(rule, self.found[rule], self.missed[rule], self.false[rule])
        yield self._line("all", self.found.total(), self.missed.total(), self.false.total())

    def _line(self, name: str, found: int, missed: int, false: int) -> str:
        faults, reports = found + missed, found + false
        return f"| {name} | {faults} | {found} | {_share(found, faults)} | {false} | {_share(found, reports)} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def measured() -> Tally:
    """The tally over all cases; what is only worth knowing (info) counts on the pages that are about it."""
    tally = Tally()
    for path in CASES:
        text = path.read_text()
        wanted = expected(text)
        got = {(line_of(f), f.rule) for f in check(program(unmarked_case(text)), Wanted()).faults}
        for line in {line for line, _ in wanted | got}:
            tally.add((r for n, r in wanted if n == line), (r for n, r in got if n == line))
    for mutation in MUTATIONS:
        tally.add({mutation.rule}, reported(mutation.text), TELL_MORE.get(mutation.rule, set()))
    for path in FOLDER.glob("*.py"):
        tally.add((), reported(path.read_text()))
    _add_pages(tally)
    return tally


def _add_pages(tally: Tally) -> None:
    for example in examples("Bad", "Good", "Fixed"):
        marked = example.marked_lines if example.kind == "Bad" else set()
        faults = example.checked(wanted=Wanted(select=frozenset({example.page}))).faults
        got = {line_of(f) for f in faults}
        for line in marked | got:
            tally.add([example.page] * (line in marked), [example.page] * (line in got))
        if example.kind == "Good":
            others = {
                f.rule for f in example.checked().faults if f.severity is not Severity.INFO and f.rule != example.page
            }
            tally.add((), others)


if __name__ == "__main__":
    print("\n".join(measured().lines(rule.id for rule in all_checks())))
