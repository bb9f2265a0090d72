"""What is kept of several abstract values that meet: at one expression, in one variable, after two branches."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache
from heapq import nsmallest

from accel_migrate.facts.axes import ANYWHERE
from accel_migrate.facts.sequence import in_order, rank
from accel_migrate.facts.values import UNKNOWN, Local, Spread, Value, Values, altered

MAX_VALUES = 24
"""Abstract values kept per expression: more means that the analysis has lost track."""


def limited(values: Values) -> Values:
    """`values` with duplicates of one spread merged, and cut where the analysis has lost track."""
    return values if len(values) < 2 else _limited(values)


@lru_cache(maxsize=4096)
def _limited(values: Values) -> Values:
    found = [v for v in values if v.__class__ is Local]
    if len(found) > 1:
        merged: dict[Spread, Local] = {}
        for value in in_order(found):
            old = merged.get(value.spread)
            merged[value.spread] = value if old is None else _merged(old, value)
        values = frozenset(v for v in values if not isinstance(v, Local)) | frozenset(merged.values())
    if len(values) > MAX_VALUES:
        kinds: defaultdict[type, list[Value]] = defaultdict(list)
        for value in values:
            kinds[type(value)].append(value)
        if any(len(group) > MAX_VALUES for group in kinds.values()):
            values = frozenset(v for group in kinds.values() for v in nsmallest(MAX_VALUES, group, key=rank))
    return values


def grown(old: Values, values: Values) -> Values:
    """What stands in a place of the store that held `old`, once `values` come to it.

    What was there first stays, so that writing the same values again, pass after pass, ends.
    """
    merged = {v.spread: v for v in old if v.__class__ is Local}
    if not merged:
        return limited(old | values)
    for value in in_order([v for v in values if v.__class__ is Local]):
        before = merged.get(value.spread)
        merged[value.spread] = value if before is None else _merged(before, value)
    return limited(frozenset(v for v in old | values if v.__class__ is not Local) | frozenset(merged.values()))


def _merged(a: Local, b: Local) -> Local:
    keep = a if _denominator(a) == _denominator(b) else altered(a, weight="", parts=())
    return altered(keep, grad=a.grad or b.grad, host=a.host and b.host, output=a.output and b.output, batch=a.batch and b.batch, taken=max(a.taken, b.taken, key=_places),
                   truth=a.truth and b.truth, mask=a.mask or b.mask, whole=a.whole and b.whole, axis=a.axis if a.axis == b.axis else ANYWHERE, rank=a.rank if a.rank == b.rank else None)  # fmt: skip


def _places(taken: frozenset[ast.AST]) -> tuple[int, list[int]]:
    """How many nodes there are, and their lines: a choice that does not hang on the order of a set."""
    return len(taken), sorted(getattr(node, "lineno", 0) or getattr(getattr(node, "iter", None), "lineno", 0) for node in taken)


def _denominator(value: Local) -> tuple[str, ...]:
    """What a mean over something else than rows divides by, as text; two losses that read alike divide alike."""
    return (value.weight, *(ast.unparse(node) for _, node in value.parts))


def joined(a: dict[str, Values], b: dict[str, Values]) -> dict[str, Values]:
    both: dict[str, Values] = {}
    for name in {**a, **b}:
        first, second = a.get(name, UNKNOWN), b.get(name, UNKNOWN)
        both[name] = first if first is second and len(first) < 2 else limited(first | second)
    return both
