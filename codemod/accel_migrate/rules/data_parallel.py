"""`nn.DataParallel` goes, and with it `.module` and the mean over its devices' losses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, DropImportIfUnused, Edit, Finding
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role, Spread

ID = "data-parallel"
TITLE = "Replace nn.DataParallel"
WHY = "the accelerator trains with one process per device"


def apply(context: Context) -> Iterator[Edit | Finding]:
    calls = list(context.calls_of(*catalog.DATA_PARALLEL))
    if not calls:
        return
    for call in calls:
        yield from _unwrap(context, call)
    for source, node in context.facts.nodes(ast.IfExp, ast.Attribute, ast.Assign):
        if isinstance(node, ast.IfExp):
            yield from _module_choice(context, node)
        elif isinstance(node, ast.Attribute):
            yield from _module(context, node)
        elif isinstance(node, ast.Assign):
            yield from _loss_mean(context, node)
        del source
    for source in context.facts.sources:
        yield DropImportIfUnused(source=source, rule=ID, name="DataParallel")


def _unwrap(context: Context, call: ast.Call) -> Iterator[Edit]:
    statement = context.facts.statement(call)
    model = call.args[0] if call.args else call.keywords[0].value
    if isinstance(statement, ast.Assign) and statement.value is call and ast.unparse(statement.targets[0]) == ast.unparse(model):
        yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=_with_guard(context, statement))
    else:
        yield context.replace(ID, call, "{x}", WHY, x=model)


def _with_guard(context: Context, statement: ast.stmt) -> ast.stmt:
    """The `if n_gpu > 1:` around `statement`, if it guards nothing else (but a notice)."""
    parent = context.facts.parents[statement]
    if isinstance(parent, ast.If) and not parent.orelse:
        others = [s for s in parent.body if s is not statement]
        if all(isinstance(s, ast.Expr) and ast.unparse(s).startswith("print(") for s in others):
            return parent
    return statement


def _module_choice(context: Context, node: ast.IfExp) -> Iterator[Edit]:
    """`model.module if hasattr(model, "module") else model`."""
    test = ast.unparse(node.test)
    if test.startswith("hasattr(") and ", 'module')" in test and context.is_model(node.orelse):
        yield context.replace(ID, node, "{x}", WHY, x=node.orelse)


def _module(context: Context, node: ast.Attribute) -> Iterator[Edit]:
    if node.attr != "module" or not isinstance(node.ctx, ast.Load) or not context.is_model(node.value):
        return
    parent = context.facts.parents[node]
    if isinstance(parent, ast.IfExp) and ast.unparse(parent.test).startswith("hasattr("):
        return
    yield context.replace(ID, node, "{x}", WHY, x=node.value)


def _loss_mean(context: Context, node: ast.Assign) -> Iterator[Edit]:
    """`if n_gpu > 1: loss = loss.mean()`."""
    value = node.value
    if not (isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "mean" and not value.args):
        return
    parent = context.facts.parents[node]
    spreads = {v.spread for v in context.locals(value.func.value)}
    if isinstance(parent, ast.If) and "gpu" in ast.unparse(parent.test).lower() and spreads <= {Spread.MEAN, Spread.SHARD, Spread.RATIO} and spreads:
        same = ast.unparse(value.func.value) == ast.unparse(node.targets[0])
        if same and len(parent.body) == 1 and not parent.orelse:
            yield DeleteStatement(source=context.source(node), rule=ID, why="the loss is one number already", node=parent)


__all__ = ["ID", "TITLE", "WHY", "Role", "apply"]
