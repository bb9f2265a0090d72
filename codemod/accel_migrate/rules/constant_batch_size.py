"""The batch size of a loader, written where a process's own number of rows is wanted: `x.view(batch_size, -1)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.whole_sizes import WholeSizes
from accel_migrate.quoting import quote

ID = "constant-batch-size"
TITLE = "Let shapes follow the rows of each process"
WHY = "each process holds a part of batch_size rows"

SHAPES = {"view", "reshape"}
MAKERS = {"arange", "empty", "full", "ones", "range", "zeros"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    sizes = WholeSizes(context.facts)
    for _, node in context.facts.nodes(ast.Call) if sizes.places else ():
        assert isinstance(node, ast.Call)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        shape = _shape(node)
        held = [n for entry in shape for n in ast.walk(entry) if n in sizes]
        if not held:
            continue
        if name in SHAPES and isinstance(node.func, ast.Attribute) and context.is_batch(node.func.value):
            yield _inferred(context, node, shape, sizes) or _finding(context, node)
        elif name in MAKERS and not _is_cut(context, node) and _meets_rows(context, node):
            yield _finding(context, node)


def _is_cut(context: Context, node: ast.Call) -> bool:
    """Whether `node` makes a recurrent state of which each process keeps its rows."""
    return context.dialect.exact and any(context.facts.inside(node, made) for made in context.facts.states)


def _shape(node: ast.Call) -> list[ast.expr]:
    return list(node.args[0].elts) if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple | ast.List) else list(node.args)


def _inferred(context: Context, node: ast.Call, shape: list[ast.expr], sizes: WholeSizes) -> Edit | None:
    """`-1` for a dimension that the others tell, else the number of rows of what the loader yields."""
    if len([entry for entry in shape if any(n in sizes for n in ast.walk(entry))]) > 1:
        return None
    entry = next(e for e in shape if any(n in sizes for n in ast.walk(e)))
    if not any(ast.unparse(e) == "-1" for e in shape):
        return context.replace(ID, entry, "-1", WHY)
    rows = node.func.value  # type: ignore[attr-defined]
    if entry in sizes and isinstance(rows, ast.Name) and _as_loaded(context, rows):
        return context.replace(ID, entry, f"{rows.id}.size(0)", WHY)
    return None


def _as_loaded(context: Context, rows: ast.Name) -> bool:
    """Whether `rows` still has one row for each sample: up to there it is only taken from the loader and moved."""
    moved = {f"{rows.id}.to", f"{rows.id}.cuda", f"{rows.id}.float"}
    function = context.facts.function(rows)
    for node in (n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno < rows.lineno):
        for target, value in _pairs(node):
            if isinstance(target, ast.Name) and target.id == rows.id and not (isinstance(value, ast.Call) and ast.unparse(value.func) in moved):
                return False
    targets = [n.target for n in ast.walk(function) if isinstance(n, ast.For) and n in context.facts.loops]
    return any(isinstance(n, ast.Name) and n.id == rows.id for target in targets for n in ast.walk(target))


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple) and len(target.elts) == len(node.value.elts):
            yield from zip(target.elts, node.value.elts, strict=True)
        elif isinstance(target, ast.Tuple):
            yield from ((element, node.value) for element in target.elts)
        else:
            yield target, node.value


def _meets_rows(context: Context, node: ast.Call) -> bool:
    """Whether what `node` makes, or the variable that takes it, stands beside rows of this process in a call, index or sum."""
    facts = context.facts
    statement = facts.statement(node)
    names = {t.id for t in statement.targets if isinstance(t, ast.Name)} if isinstance(statement, ast.Assign) else set()
    if isinstance(statement, ast.For) and facts.inside(node, statement.iter):
        names = {n.id for n in ast.walk(statement.target) if isinstance(n, ast.Name)}
    for outer in ast.walk(facts.function(node)):
        parts = _side_by_side(outer)
        own = [p for p in parts if any(n is node or (isinstance(n, ast.Name) and n.id in names) for n in ast.walk(p))]
        if own and any(context.is_batch(p) for p in parts if p not in own):
            return True
    return False


def _side_by_side(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Subscript):
        return [node.value, *(node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice])]
    return [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else []


def _finding(context: Context, node: ast.Call) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
        message=f"`{quote(node)}` counts the rows of the whole batch, and each of N processes holds a part of them",
        advice="ask the rows themselves: x.size(0), or len(x)",
    )  # fmt: skip
