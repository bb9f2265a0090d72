"""Losses, and the figures that a script takes out of its tensors: what they are over the rows of the batch."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.explain.said import Said, listed, quoted, said
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Spread, Values, locals_of

_WHAT = {
    Spread.SHARD: "has something for each row of the batch",
    Spread.MEAN: "is a mean over the rows of the batch",
    Spread.SUM: "is a sum over the rows of the batch",
    Spread.COUNT: "counts rows of the batch",
    Spread.RATE: "is divided by the number of rows of the batch",
    Spread.ROW: "belongs to a single row of the batch",
    Spread.RATIO: "is a sum over the batch divided by something else than its number of rows (tokens, class weights)",
    Spread.MIXED: "mixes figures of the batch, such as a mean plus a sum",
}
_GLOBAL = {
    Spread.SHARD: "each process has it for its own rows; together they are the batch",
    Spread.MEAN: "the global one is the mean of all processes, weighted by their numbers of rows",
    Spread.SUM: "the global one is the sum of all processes",
    Spread.COUNT: "the global one is the number of rows on all processes",
    Spread.RATE: "the global one has the number of rows on all processes below the line",
    Spread.ROW: "it concerns the process that has the row",
    Spread.RATIO: "the global one is the mean of all processes, weighted by what is below the line",
    Spread.MIXED: "no single reduction makes a global one of it",
}
_EFFECT = {
    Spread.MEAN: "; gradients are averaged over processes, weighted by their numbers of rows",
    Spread.SUM: "; gradients are added over processes",
    Spread.RATIO: "; gradients are averaged over processes, weighted by what is below the line",
}
_HOW = {
    "item": "becomes a number of Python",
    "array": "becomes an array of NumPy",
    "print": "is shown",
    "test": "decides what happens next",
    "collect": "goes into a list or a running figure",
    "keep": "is kept beyond the batch",
    "count": "is counted",
}


def losses(facts: Facts) -> Iterator[Said]:
    """One sentence for each backward pass."""
    for backward in facts.backwards.values():
        scaled = ", scaled for mixed precision," if backward.scaled else ""
        spreads = _spreads(backward.values)
        what = listed([_WHAT[spread] for spread in spreads], "or") or "has an unknown relation to the rows of the batch"
        effect = _EFFECT.get(spreads[0], "") if len(spreads) == 1 else ""
        outside = "" if backward.with_loader else " (outside of every loop over a loader)"
        yield said(f"{quoted(backward.loss)}{scaled} {what}{outside}{effect}", backward.scope.source, backward.call)


def figures(facts: Facts) -> dict[str, list[Said]]:
    """By what they are over the rows: each place at which a value that differs between processes leaves the tensors."""
    found: dict[str, list[Said]] = {}
    for conversion in facts.conversions.values():
        how = f"{quoted(conversion.value)} {_HOW.get(conversion.how, 'leaves the tensors')}"
        for title in map(_title, _spreads(conversion.values)):
            found.setdefault(title, []).append(said(how, conversion.scope.source, conversion.value))
    return found


def _title(spread: Spread) -> str:
    return f"Values of one process, each of which {_WHAT[spread]}; {_GLOBAL[spread]}"


def _spreads(values: Values) -> list[Spread]:
    return sorted({value.spread for value in locals_of(values)}, key=list(Spread).index)
