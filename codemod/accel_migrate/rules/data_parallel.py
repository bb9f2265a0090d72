"""`nn.DataParallel` goes, and with it `.module` and the mean over its devices' losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, DropImportIfUnused, Edit, Finding
from accel_migrate.facts import catalog
from accel_migrate.facts.distributed import ranks_of
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.values import Spread
from accel_migrate.hand_made.wrapper import asks_for_wrapper, unwrapped, without_questions

ID = "data-parallel"
TITLE = "Replace nn.DataParallel"
WHY = "the accelerator trains with one process per device"
ONE_NUMBER = {Spread.MEAN, Spread.SHARD, Spread.RATIO}


def apply(context: Context) -> Iterator[Edit | Finding]:
    calls = list(context.calls_of(*catalog.DATA_PARALLEL))
    if not calls:
        return
    for call in calls:
        guard = _guard(context, context.facts.statement(call))
        if guard is not None:
            yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=guard)
        else:
            yield from unwrapped(context, call, ID, WHY)
    if not context.distributed:
        yield from without_questions(context, ID)
    for _, node in context.facts.nodes(ast.Attribute, ast.Assign):
        if isinstance(node, ast.Attribute) and not context.distributed:
            yield from _module(context, node)
        elif isinstance(node, ast.Assign):
            yield from _loss_mean(context, node)
    for source in context.facts.sources:
        yield DropImportIfUnused(source=source, rule=ID, name="DataParallel")


def _guard(context: Context, statement: ast.stmt) -> ast.If | None:
    """The `if n_gpu > 1:` around a wrapping of the model, if it guards nothing else (but a notice)."""
    parent = context.facts.parents[statement]
    if not isinstance(statement, ast.Assign) or not isinstance(parent, ast.If) or parent.orelse:
        return None
    value = statement.value
    wraps = isinstance(value, ast.Call) and value.args and ast.unparse(statement.targets[0]) == ast.unparse(value.args[0])
    others = [s for s in parent.body if s is not statement]
    notices = all(isinstance(s, ast.Expr) and ast.unparse(s).startswith("print(") for s in others)
    return parent if wraps and notices else None


def _module(context: Context, node: ast.Attribute) -> Iterator[Edit]:
    if not context.is_wrapped(node):
        return
    if not any(isinstance(a, ast.IfExp) and asks_for_wrapper(context, a.test) for a in context.facts.ancestors(node)):
        yield context.replace(ID, node, "{x}", WHY, x=node.value)


def _loss_mean(context: Context, node: ast.Assign) -> Iterator[Edit]:
    """`if n_gpu > 1: loss = loss.mean()`."""
    value = node.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "mean" and not value.args):
        return
    parent = context.facts.parents[node]
    spreads = {v.spread for v in context.locals(value.func.value)}
    if isinstance(parent, ast.If) and _counts_devices(context, parent.test) and spreads <= ONE_NUMBER and spreads:
        same = ast.unparse(value.func.value) == ast.unparse(node.targets[0])
        if same and len(parent.body) == 1 and not parent.orelse:
            yield DeleteStatement(source=context.source(node), rule=ID, why="the loss is one number already", node=parent)


def _counts_devices(context: Context, test: ast.expr) -> bool:
    """Whether `test` asks if there are several devices."""
    ranks = ranks_of(context.facts)
    numbers = [n for n in ast.walk(test) if isinstance(n, ast.expr) and ranks.kind(n) is Kind.LOCAL_WORLD]
    return bool(numbers) or "gpu" in ast.unparse(test).lower()
