"""Random tensors shaped by the batch are drawn for the global batch, of which each process takes its rows.

Otherwise all processes draw the same noise: their random streams are alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Local, Role, Spread
from accel_migrate.rules._drawing import draw
from accel_migrate.rules._partners import followed

ID = "random-draws"
TITLE = "Draw batch-shaped noise for the global batch"
WHY = "every process draws the global batch's noise and takes its rows"
FINDINGS = {"batch-permutation": "Find permutations of the rows of a batch"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for call in draws_by_method(context):
        if context.dialect.draws:
            yield from draw(context, call, ID, WHY)
    for call, name in context.facts.external.items():
        if (name in catalog.RANDOM_DRAWS and _has_count(context, call)) or (name in catalog.RANDOM_LIKES | catalog.ROW_DRAWS and _has_rows(context, call)):
            if context.dialect.draws:
                yield from draw(context, call, ID, WHY)
        elif name in catalog.BATCH_PERMUTATIONS and _has_count(context, call) and followed(context, call) is None:
            yield Finding(
                source=context.source(call), node=call, rule="batch-permutation", severity=Severity.WARNING,
                message="this permutes the rows of a batch: on N processes each permutes only its own rows",
                advice="fine if any partner will do; for the same pairs as before, permute before the loader cuts the batch (collate_fn)",
            )  # fmt: skip


def draws_by_method(context: Context) -> Iterator[ast.Call]:
    """`x.normal_()`, `p.bernoulli()`, `distribution.rsample()` of rows of a batch."""
    for call, (values, name) in context.facts.methods.items():
        if name in catalog.METHOD_DRAWS and any(isinstance(v, Local) and v.spread is Spread.SHARD and not v.batch for v in values):
            yield call


def _has_count(context: Context, call: ast.Call) -> bool:
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "size")]
    sizes = [e for a in given for e in (a.elts if isinstance(a, ast.Tuple | ast.List) else [a])]
    shaped = any(context.facts.has_role(size, Role.SHAPE) for size in sizes)
    return shaped or any(v.spread is Spread.COUNT for size in sizes for v in context.locals(size))


def _has_rows(context: Context, call: ast.Call) -> bool:
    return any(context.is_batch(argument) for argument in call.args)
