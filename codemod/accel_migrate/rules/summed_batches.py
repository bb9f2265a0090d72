"""One backward pass from the losses of several batches is exact only where all of them are shared out in the same proportions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.facts import Backward
from accel_migrate.facts.liveness import starts_anew
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
        loops = [loop for loop in _loops(context, backward) if not _are_full(context, loop)]
        if not loops:
            continue
        sources = sources_of_losses(context.facts) if sources is None else sources
        if any(_adds_up(context, loop, sources, backward.call) for loop in loops):
            yield Finding(
                source=context.source(backward.call), node=backward.call, rule=ID, severity=Severity.WARNING,
                message="this loss adds up means over several batches: where one of them is smaller and the number of processes does not divide it, the runtime stops here",
                advice="use drop_last=True and a batch size that the number of processes divides, or call backward for each batch and step after the last",
            )  # fmt: skip


def _loops(context: Context, backward: Backward) -> list[ast.For]:
    """The loops over a loader from which the means in the loss come."""
    means = [v for v in locals_of(backward.values) if v.grad and v.spread is not Spread.SUM]
    around = [(node, *context.facts.ancestors(node)) for v in means for node in v.taken]  # a loop, or the loader within its `enumerate`
    return [loop for nodes in around for loop in nodes[:3] if isinstance(loop, ast.For) and (loop is nodes[0] or context.facts.inside(nodes[0], loop.iter))]


def _are_full(context: Context, loop: ast.For) -> bool:
    """Whether every batch of `loop` has the same size."""
    known = context.facts.loops.get(loop)
    loaders = [v.site for v in (known.loaders if known is not None else ()) if isinstance(v, Made) and v.role is Role.LOADER]
    return bool(loaders) and all(isinstance(s, ast.Call) and any(k.arg == "drop_last" and ast.unparse(k.value) == "True" for k in s.keywords) for s in loaders)


def _adds_up(context: Context, loop: ast.For, sources: set[tuple[object, str]], backward: ast.Call) -> bool:
    """Whether the loss keeps what earlier rounds of `loop` left in it."""
    for node in (n for s in loop.body for n in ast.walk(s)):
        kept = next((t for t in _added_to(node) if place(context.facts, t) in sources), None)
        if kept is not None and (not context.facts.inside(backward, loop) or (_adds_loss(context, node) and _outlives(context, kept, loop))):
            return True
    return False


def _added_to(node: ast.AST) -> list[ast.expr]:
    """The variables that keep what they held, and get more, by `node`."""
    if isinstance(node, ast.AugAssign):
        return [node.target]
    if isinstance(node, ast.Assign):
        return [t for t in node.targets if _reads(node.value, t)]
    adds = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING
    return [node.func.value] if adds else []  # type: ignore[attr-defined]


def _adds_loss(context: Context, node: ast.AST) -> bool:
    """Whether what `node` adds has a gradient: a running baseline or a recurrent state has none, or is none of the losses."""
    if isinstance(node, ast.Assign) and not isinstance(node.value, ast.BinOp):
        return False
    added = node.args[-1] if isinstance(node, ast.Call) and node.args else getattr(node, "value", None)
    return isinstance(added, ast.expr) and any(v.grad and v.spread is not Spread.SHARD for v in context.locals(added))


def _outlives(context: Context, kept: ast.expr, loop: ast.For) -> bool:
    """Whether the variable `kept` goes on from one batch to the next; a loss of several terms begins anew with each."""
    return isinstance(kept, ast.Name) and context.facts.function(kept) is context.facts.function(loop) and not starts_anew(context.facts, kept.id, loop)


def _reads(value: ast.expr, target: ast.expr) -> bool:
    text = ast.unparse(target)
    return any(isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) == text for n in ast.walk(value))
