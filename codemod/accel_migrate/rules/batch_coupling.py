"""Losses that compare the samples of a batch with each other need all of them: a finding.

Contrastive and ranking losses (`a @ b.T`, `cdist`, `arange` labels) see fewer negatives where each process computes them
from its own rows; rows standardised by statistics of the batch (`x - x.mean(0)`) become other rows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Spread
from accel_migrate.quoting import quote

ID = "batch-coupling"
TITLE = "Find losses that compare the samples of a batch"
WHY = "each process holds only some of the samples to compare with"

PRODUCTS = {"mm", "matmul"}
FLIPS = {("transpose", (0, 1)), ("transpose", (1, 0)), ("permute", (1, 0)), ("swapaxes", (0, 1)), ("t", ())}
STATISTICS = {Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.MIXED}
PAIRWISE = {"cdist", *(catalog.ROW_COUPLING - {"pairwise_distance"})}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    seen: set[ast.stmt] = set()
    for _, node in context.facts.nodes(ast.BinOp, ast.AugAssign, ast.Call):
        if _couples(context, node) and context.facts.statement(node) not in seen:
            seen.add(context.facts.statement(node))
            yield _finding(context, node)


def _couples(context: Context, node: ast.AST) -> bool:
    if isinstance(node, ast.AugAssign):
        return _meet_statistic(context, node.target, node.value)
    if isinstance(node, ast.BinOp):
        if _meet_statistic(context, node.left, node.right) or _meet_statistic(context, node.right, node.left):
            return True
        if isinstance(node.op, ast.MatMult):
            return _trained(context, node.left) and _is_flipped_batch(context, node.right)
        return _are_crossed(context, node.left, node.right)
    if not isinstance(node, ast.Call):
        return False
    if node in context.facts.trained_statistics and context.in_model(node):
        return True  # sums by class or segment, from which the model goes on
    name = context.facts.external.get(node, "").rpartition(".")[2] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
    if name in PAIRWISE:
        rows = [context.is_batch(a) or _is_figure(context, a) for a in node.args[:2] if not isinstance(a, ast.Constant)]
        return any(_trained(context, a) for a in node.args) and all(rows)
    if name == "einsum":
        return any(_trained(context, a) for a in node.args) and _crosses(context, node)
    operands = [*([node.func.value] if isinstance(node.func, ast.Attribute) and context.is_batch(node.func.value) else []), *node.args]
    if name in PRODUCTS and len(operands) == 2:
        return _trained(context, operands[0]) and _is_flipped_batch(context, operands[1])
    return name in {"cosine_similarity", "pairwise_distance"} and len(operands) >= 2 and _are_crossed(context, operands[0], operands[1])


def _meet_statistic(context: Context, rows: ast.expr, other: ast.expr) -> bool:
    """`x - x.mean(0)`: each row meets a figure of all of them, which is not made global."""
    return context.is_batch(rows) and _is_figure(context, other)


def _is_figure(context: Context, node: ast.expr) -> bool:
    """Whether `node` is a figure of this process's rows that is not made global: a mean of the rows, prototypes of classes."""
    figures = {v.spread for v in context.locals(node)}
    return node not in context.facts.conversions and bool(figures) and figures <= STATISTICS


def _trained(context: Context, node: ast.expr) -> bool:
    """Whether `node` holds rows through which gradients flow."""
    return any(v.grad for v in context.locals(node)) and context.is_batch(node)


def _is_flipped_batch(context: Context, node: ast.expr) -> bool:
    """`x.T`, `x.t()`, `x.transpose(0, 1)` of rows of a batch."""
    if isinstance(node, ast.Attribute):
        return node.attr == "T" and context.is_batch(node.value)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        dims = tuple(a.value if isinstance(a, ast.Constant) else None for a in node.args)
        return (node.func.attr, dims) in FLIPS and context.is_batch(node.func.value)
    return False


def _are_crossed(context: Context, left: ast.expr, right: ast.expr) -> bool:
    """`x.unsqueeze(1)` with `y.unsqueeze(0)`: every row of one meets every row of the other."""
    pair = {_new_dimension(context, left), _new_dimension(context, right)}
    return pair == {0, 1} and (_trained(context, left) or _trained(context, right))


def _crosses(context: Context, node: ast.Call) -> bool:
    """Whether an `einsum` names the rows of its operands by different letters."""
    equation = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
    terms = str(equation).replace(" ", "").partition("->")[0].split(",")
    rows = [(term, v.axis) for term, a in zip(terms, node.args[1:], strict=False) for v in context.locals(a) if v.spread is Spread.SHARD]
    return len({term[axis] for term, axis in rows if 0 <= axis < len(term)}) > 1


def _new_dimension(context: Context, node: ast.expr) -> int | None:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze" and context.is_batch(node.func.value):
        return node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None  # type: ignore[return-value]
    if isinstance(node, ast.Subscript) and context.is_batch(node.value):
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        new = [i for i, e in enumerate(index) if isinstance(e, ast.Constant) and e.value is None]
        return new[0] if len(new) == 1 else None
    return None


def _finding(context: Context, node: ast.AST) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule=ID, severity=Severity.ERROR,
        message=f"`{quote(node)}` compares the samples of a batch with each other: on N processes each sees only its own, and the loss is another one",
        advice="gather what is compared, with gradients, on every process first: torch.distributed.nn.all_gather, then call accelerator.backward on the loss of the whole batch",
    )  # fmt: skip
