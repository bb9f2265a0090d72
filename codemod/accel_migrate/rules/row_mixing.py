"""Operations along dimension 0 of a batch in a training step: a finding.

`chunk`, `flip`, `softmax(dim=0)`, `x[:4]` and kin take a process's slice for the whole batch: other rows meet, other rows
are picked. So does `cat` of a slice with rows that all processes hold, which then count once per process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import axes, catalog
from accel_migrate.facts.values import Spread
from accel_migrate.quoting import quote
from accel_migrate.rules._partners import is_turned

ID = "row-mixing"
TITLE = "Find operations that mix or pick the rows of a batch"
WHY = "each process holds only a slice of the rows"

DEFAULT_ROWS = {"chunk": 0, "split": 1, "tensor_split": 1}
"""Run over rows unless told otherwise; the number of arguments before the dimension."""
ON_REQUEST = {"flip", "roll", "softmax", "log_softmax", "logsumexp", "cumsum", "cumprod", "sort", "argsort", "topk", "std", "var", "quantile", "median"}
"""Run over rows where dimension 0 is asked for."""
OVER_ALL = {"quantile", "median", "nanmedian"}
"""Run over everything unless told otherwise."""
LAST_UNLESS_TOLD = {*catalog.SELECTIONS, "cumsum", "softmax", "log_softmax", "logsumexp"}
"""Run along the last dimension unless told otherwise: that of the rows where there is no other."""
JOINS = {"cat", "concat", "concatenate", "vstack"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    seen: set[ast.stmt] = set()
    for _, node in context.facts.nodes(ast.Call, ast.Subscript):
        problem = None if is_turned(context, node) else _problem(context, node)
        if problem is not None and _in_training(context, node) and context.facts.statement(node) not in seen:
            seen.add(context.facts.statement(node))
            yield _finding(context, node, problem)


def _problem(context: Context, node: ast.AST) -> str | None:
    if isinstance(node, ast.Subscript):
        return "picks rows of this process's slice" if _slices_rows(context, node) else None
    assert isinstance(node, ast.Call)
    name = context.facts.external.get(node, "")
    if name and not name.startswith("torch."):
        return None
    last = name.rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    rows, rest = _operands(context, node, is_function=bool(name))
    if last in JOINS and name:
        return "joins this process's slice with rows that every process holds" if _joins_shared(context, node) else None
    local = next((v for v in context.locals(rows) if v.spread is Spread.SHARD), None) if rows is not None else None
    if rows is None or local is None or any(v.reduced is rows for c in context.facts.conversions.values() for v in context.locals(c.value)):
        return None
    if last == "one_hot" and not rest and not any(k.arg == "num_classes" for k in node.keywords):
        return "is as wide as the largest class in this process's slice"
    dims = _dims(node, rest, last)
    if last in DEFAULT_ROWS and local.blocks:
        return None  # the batches that were joined are parted again
    if last in DEFAULT_ROWS and axes.covers(local, [dims if dims is not None else 0]):
        return "cuts this process's slice"
    over_last = last in LAST_UNLESS_TOLD and axes.compares_rows(local, None if dims is None else [dims])
    over_all = last in OVER_ALL and dims is None and len(rest) <= (last == "quantile")
    if over_last or over_all or (last in ON_REQUEST and dims is not None and axes.covers(local, [dims])):
        return "compares the rows of this process's slice"
    return None


def _operands(context: Context, node: ast.Call, is_function: bool) -> tuple[ast.expr | None, list[ast.expr]]:
    if is_function:
        return (node.args[0] if node.args else None), list(node.args[1:])
    return (node.func.value if isinstance(node.func, ast.Attribute) else None), list(node.args)


def _dims(node: ast.Call, rest: list[ast.expr], name: str) -> object:
    """The dimension that the call names, as a literal; None if it names none."""
    named = next((k.value for k in node.keywords if k.arg in {"dim", "dims", "axis"}), None)
    before = DEFAULT_ROWS.get(name, 1 if name in {"roll", "topk", "quantile"} else 0)
    before = 1 if name in DEFAULT_ROWS else before
    chosen = named if named is not None else rest[before] if len(rest) > before else None
    if chosen is None:
        return None
    if isinstance(chosen, ast.Tuple | ast.List) and len(chosen.elts) == 1:
        chosen = chosen.elts[0]
    try:
        return ast.literal_eval(chosen)
    except ValueError:
        return "?"


def _slices_rows(context: Context, node: ast.Subscript) -> bool:
    index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(index, ast.Slice) or (index.lower is None and index.upper is None and index.step is None):
        return False
    rows = [v for v in context.locals(node.value)]
    if any(v.blocks for v in rows) and all(_counts_rows(context, bound) for bound in (index.lower, index.upper)) and index.step is None:
        return False  # the batches that were joined are parted again
    fed = any(v.grad or v.host for v in rows)  # on the way into a model or out of it, not a figure for a person
    return context.is_batch(node.value) and isinstance(node.ctx, ast.Load) and fed and not any(v.batch or v.output for v in rows)


def _counts_rows(context: Context, bound: ast.expr | None) -> bool:
    return bound is None or {v.spread for v in context.locals(bound)} == {Spread.COUNT}


def _joins_shared(context: Context, node: ast.Call) -> bool:
    if not node.args or not isinstance(node.args[0], ast.List | ast.Tuple) or _dims(node, list(node.args[1:]), "cat") not in (None, 0):
        return False
    parts = node.args[0].elts
    local = [context.is_batch(p) for p in parts if not isinstance(p, ast.Starred)]
    return any(local) and not all(local)


def _in_training(context: Context, node: ast.AST) -> bool:
    """Whether `node` is evaluated in a training step, and not only to show or keep something."""
    facts = context.facts
    if context.in_model(node) or any(facts.inside(node, c.value) for c in facts.conversions.values()):
        return False
    return any(loop.trains and facts.inside(node, loop.node) for loop in facts.loops.values()) or any(v.grad for v in context.locals(node))


def _finding(context: Context, node: ast.AST, problem: str) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
        message=f"`{quote(node)}` {problem}: on N processes that is not what it does to the whole batch",
        advice="do it before the loader cuts the batch (in the data set or a collate_fn), or gather what is compared, with gradients: torch.distributed.nn.all_gather",
    )  # fmt: skip
