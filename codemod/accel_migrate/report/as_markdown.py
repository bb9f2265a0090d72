"""The report of a run as Markdown, to be posted to a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from accel_migrate.edits import Severity
from accel_migrate.report.diff import unified
from accel_migrate.report.outcome import Item, Outcome, Run
from accel_migrate.report.text import count, for_a_person, grouped, why_unchanged

_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


def as_markdown(run: Run) -> Iterator[str]:
    """The lines: a table of all programs, then for each what is left to do, what was done, and the diff."""
    yield "## accel-migrate"
    yield ""
    yield f"{count(run.outcomes)}."
    yield ""
    if run.outcomes:
        yield "| program | outcome | edits | by hand |"
        yield "| --- | --- | ---: | ---: |"
        yield from map(_row, run.outcomes)
    for error in run.errors:
        yield f"- **error:** {_escaped(error)}"
    for outcome in run.outcomes:
        yield from _program(outcome, bool(run.written))


def _row(outcome: Outcome) -> str:
    numbers = count([outcome])
    what = outcome.status if outcome.status == "changed" else f"{outcome.status}: {_escaped(outcome.reason)}"
    return f"| {_code(str(outcome.path))} | {what} | {numbers.edits} | {numbers.by_hand} |"


def _program(outcome: Outcome, written: bool) -> Iterator[str]:
    if not (outcome.changes or outcome.findings or outcome.held_back):
        return
    yield ""
    yield f"### {_code(str(outcome.path))}"
    if outcome.status != "changed":
        yield from ("", _escaped(why_unchanged(outcome)))
    yield from _findings("Left to do by hand", for_a_person(outcome.findings))
    yield from _findings("Held back as unsafe", outcome.held_back)
    yield from _findings("Worth knowing", [item for item in outcome.findings if item.severity is Severity.INFO])
    for change in outcome.changes:
        yield from ("", f"<details><summary>Changes of {_html(str(change.source.path))}</summary>", "")
        yield from (f"- {_escaped(line)}" for line in grouped(change.edits))
        yield from ("", *_fenced("\n".join(unified(change)), "diff"), "", "</details>")
    if outcome.changes:
        yield from ("", f"{'Launch it' if written else 'Once written, launch it'}: {_code(outcome.launch)}")


def _findings(title: str, items: Sequence[Item]) -> Iterator[str]:
    if items:
        yield from ("", f"**{title}**", "")
    yield from map(_line, items)


def _line(item: Item) -> str:
    return f"- {_code(str(item.place))} **{item.rule}**: {_escaped(item.in_one)}"


def _escaped(text: str) -> str:
    """Plain text; what stands in backticks stays code, in which only the border of a table's cell needs care."""
    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(part.replace("|", r"\|") if number % 2 else _SPECIAL.sub(r"\\\1", part) for number, part in enumerate(parts))


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}".replace("|", "\\|")


def _fenced(text: str, language: str) -> Iterator[str]:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", text, fence)
