"""One loss over batches of two loaders is exact only where both are shared out in the same proportions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.facts import Backward
from accel_migrate.facts.home import first_reaching
from accel_migrate.facts.values import Local, Made, Role

ID = "two-loaders"
TITLE = "Report losses that add means over batches of several loaders"
WHY = "each batch has a share of its own, and a loss has one weight"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed or not context.dialect.exact:
        return
    for backward in context.facts.backwards.values():
        taken = frozenset(node for node in _taken(backward) if _runs(context, node, backward.call))
        if len(taken) > 1 and not _alike(context, taken):
            yield Finding(
                source=context.source(backward.call), node=backward.call, rule=ID, severity=Severity.WARNING,
                message="this loss adds means over batches of several loaders; it is exact only if the number of processes divides each batch",
                advice="choose batch sizes that the number of processes divides (drop_last=True for the rest), or call backward for each term",
            )  # fmt: skip


def _taken(backward: Backward) -> frozenset[ast.AST]:
    return max((v.taken for v in backward.values if isinstance(v, Local)), key=len, default=frozenset())


def _runs(context: Context, node: ast.AST, backward: ast.Call) -> bool:
    """Whether the backward runs in the loop over those batches: what the lists of a model's forward hold is not told apart by its callers."""
    loop = node if isinstance(node, ast.For | ast.AsyncFor) else context.facts.statement(node)
    if not isinstance(loop, ast.For | ast.AsyncFor) or context.facts.inside(backward, loop):
        return True
    return first_reaching(context.facts, loop.body, {context.facts.function(backward)}) is not None


def _alike(context: Context, taken: frozenset[ast.AST]) -> bool:
    """Whether all batches come from loaders with the same batch size."""
    sizes = {size for node in taken for size in _batch_sizes(context, node)}
    return len(sizes) == 1 and None not in sizes


def _batch_sizes(context: Context, node: ast.AST) -> set[str | None]:
    expression = node.iter if isinstance(node, ast.For | ast.AsyncFor) else node.args[0] if isinstance(node, ast.Call) and node.args else node
    loaders = [v for v in context.facts.of(expression) if isinstance(v, Made) and v.role is Role.LOADER]
    return {_batch_size(v.site) for v in loaders} or {None}


def _batch_size(site: ast.AST) -> str | None:
    if not isinstance(site, ast.Call):
        return None
    found = next((k.value for k in site.keywords if k.arg == "batch_size"), site.args[1] if len(site.args) > 1 else None)
    return ast.unparse(found) if found is not None else None
