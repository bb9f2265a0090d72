"""`output.squeeze()` drops the batch dimension where a process holds a single row: a finding."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.quoting import quote

ID = "squeeze-rows"
TITLE = "Find squeezes that drop the batch dimension"
WHY = "a process that holds one row of a batch loses the dimension of the rows"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    seen: set[int] = set()
    for node in _squeezed(context):
        if node.lineno not in seen:
            seen.add(node.lineno)
            yield _finding(context, node)


def _squeezed(context: Context) -> Iterator[ast.Call]:
    """Calls of `x.squeeze()` or `torch.squeeze(x)`, without a dimension, on rows of a batch."""
    for _, node in context.facts.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if context.facts.external.get(node) == "torch.squeeze" and len(node.args) + len(node.keywords) == 1:
            value: ast.expr = node.args[0] if node.args else node.keywords[0].value
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "squeeze" and not node.args and not node.keywords:
            value = node.func.value
        else:
            continue
        if context.is_batch(value) and _meets_others(context, node):
            yield node


def _meets_others(context: Context, node: ast.Call) -> bool:
    """Whether the shape matters afterwards: it is not just turned into numbers."""
    parent = context.facts.parents[node]
    return not (isinstance(parent, ast.Attribute) and parent.attr in {"tolist", "item", "sum", "mean"})


def _finding(context: Context, node: ast.Call) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
        message=f"`{quote(node)}` drops the batch dimension on a process that holds one row (the last batch of an epoch, for one)",
        advice="name the dimension to drop: squeeze(-1)",
    )  # fmt: skip
