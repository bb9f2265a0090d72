"""Batch-shaped noise for Hugging Face Accelerate: every process draws the global batch's and takes its rows.

That library has no call for it, so the rows are cut where the noise is drawn. Its prepared loaders give all processes
slices of one size, which makes the cut exact.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role, Spread
from accel_migrate.rules.random_draws import draws_by_method

ID = "accelerate-draws"
TITLE = "Draw batch-shaped noise for the global batch with Accelerate"
WHY = "every process draws the global batch's noise and takes its rows"

NUMBER, INDEX = "@accelerator@.num_processes", "@accelerator@.process_index"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.dialect.draws or context.distributed:
        return
    for call in draws_by_method(context):
        yield _same_noise(context, call)
    for call, name in context.facts.external.items():
        if _takes_the_shape(context, call, name):
            yield _same_noise(context, call)
        elif name in catalog.RANDOM_DRAWS and (sizes := _counts(context, call)):
            yield from _cut(context, call, sizes)


def _takes_the_shape(context: Context, call: ast.Call, name: str) -> bool:
    """Whether the draw has the shape of a batch as a whole: `randn_like(x)`, `randn(x.shape)`."""
    if name in catalog.RANDOM_LIKES | catalog.ROW_DRAWS:
        return any(context.is_batch(argument) for argument in call.args)
    return name in catalog.RANDOM_DRAWS and any(context.facts.has_role(size, Role.SHAPE) for _, size in _sizes(call))


def _sizes(call: ast.Call) -> Iterator[tuple[int, ast.expr]]:
    """Every size that `call` may be given, with the dimension for which it stands."""
    for index, argument in enumerate((*call.args, *(k.value for k in call.keywords if k.arg == "size"))):
        if isinstance(argument, ast.Tuple | ast.List):
            yield from enumerate(argument.elts)
        else:
            yield index, argument


def _counts(context: Context, call: ast.Call) -> list[tuple[int, ast.expr]]:
    return [(d, size) for d, size in _sizes(call) if any(v.spread is Spread.COUNT for v in context.locals(size))]


def _cut(context: Context, call: ast.Call, sizes: list[tuple[int, ast.expr]]) -> Iterator[Edit | Finding]:
    dimension, size = sizes[0]
    if len(sizes) > 1 or dimension:
        yield _same_noise(context, call)
        return
    try:
        number, index = context.say(NUMBER, call), context.say(INDEX, call)
    except Unreachable:
        yield _same_noise(context, call)
        return
    slices = _slices(context, call, number)
    if slices is None:
        yield _same_noise(context, call)
        return
    yield context.replace(ID, size, f"{number} * {{x}}", WHY, x=Inner(size))
    yield context.replace(ID, call, f"{slices}[{index}]", WHY, x=Inner(call))


def _slices(context: Context, call: ast.Call, number: str) -> str | None:
    """The noise `{x}` in one slice per process; None for an array of a NumPy that has no name here."""
    if not context.facts.external[call].startswith("numpy."):
        return f"{{x}}.chunk({number})"
    numpy, found, _ = ast.unparse(call.func).rpartition(".random.")
    return f"{numpy}.array_split({{x}}, {number})" if found else None


def _same_noise(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
        message="all processes draw the same noise here for different rows: their random streams are seeded alike",
        advice="draw it for the global batch and cut it: torch.randn(n * rows, ...).chunk(n)[i], with n, i = PartialState().num_processes, .process_index",
    )  # fmt: skip
