"""One backward pass from the losses of several batches is exact only where all of them are shared out in the same proportions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.facts import Backward
from accel_migrate.facts.lossflow import place, sources_of_losses
from accel_migrate.facts.values import Made, Role, Spread, locals_of

ID = "summed-batches"
TITLE = "Report losses that add up several batches before one backward pass"
WHY = "the last batch may be smaller: it has a share of its own, and a loss has one weight"

ADDING = {"append", "extend", "insert"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed or not context.dialect.exact:
        return
    sources = None
    for backward in context.facts.backwards.values():
        loops = [loop for loop in _loops(backward) if not context.facts.inside(backward.call, loop) and not _are_full(context, loop)]
        if not loops:
            continue
        sources = sources_of_losses(context.facts) if sources is None else sources
        if any(_adds_up(context, loop, sources) for loop in loops):
            yield Finding(
                source=context.source(backward.call), node=backward.call, rule=ID, severity=Severity.WARNING,
                message="this loss adds up means over several batches: where one of them is smaller and the number of processes does not divide it, the runtime stops here",
                advice="use drop_last=True and a batch size that the number of processes divides, or call backward for each batch and step after the last",
            )  # fmt: skip


def _loops(backward: Backward) -> list[ast.For]:
    """The loops over a loader from which the means in the loss come."""
    means = [v for v in locals_of(backward.values) if v.grad and v.spread is not Spread.SUM]
    return [node for v in means for node in v.taken if isinstance(node, ast.For)]


def _are_full(context: Context, loop: ast.For) -> bool:
    """Whether every batch of `loop` has the same size."""
    loaders = [v.site for v in context.facts.of(loop.iter) if isinstance(v, Made) and v.role is Role.LOADER]
    return bool(loaders) and all(isinstance(s, ast.Call) and any(k.arg == "drop_last" and ast.unparse(k.value) == "True" for k in s.keywords) for s in loaders)


def _adds_up(context: Context, loop: ast.For, sources: set[tuple[object, str]]) -> bool:
    """Whether the loss keeps what earlier rounds of `loop` left in it."""
    for node in (n for s in loop.body for n in ast.walk(s)):
        if isinstance(node, ast.AugAssign) and place(context.facts, node.target) in sources:
            return True
        if isinstance(node, ast.Assign) and any(place(context.facts, t) in sources and _reads(node.value, t) for t in node.targets):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING and place(context.facts, node.func.value) in sources:
            return True
    return False


def _reads(value: ast.expr, target: ast.expr) -> bool:
    text = ast.unparse(target)
    return any(isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == text for n in ast.walk(value))
