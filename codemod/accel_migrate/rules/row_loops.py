"""Random draws inside loops over a process's own rows, or as many as a mask picks of them: a finding.

Each process draws as many numbers as it has rows; afterwards their random streams, which started alike, have parted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Spread
from accel_migrate.quoting import quote

ID = "row-loops"
TITLE = "Find draws and figures in loops over the rows of one process"
WHY = "the processes hold different numbers of rows"

GENERATORS = {"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"}
NO_DRAWS = {"seed", "getstate", "setstate", "get_state", "set_state", "Random", "SystemRandom", "Generator", "PCG64", "default_rng", "RandomState"}
TORCH_DRAWS = {*catalog.RANDOM_DRAWS, *catalog.RANDOM_LIKES, *catalog.ROW_DRAWS, "torch.randperm"}
SIZED = {"rand", "randn", "randint", "randperm", "normal", "uniform", "choice"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    seen: set[ast.AST] = set()
    for call in _draws(context):
        loop = context.row_loops.around(call)
        if loop is not None and loop not in seen:
            seen.add(loop)
            yield _in_loop(context, call)
        elif loop is None and _is_sized_by_mask(context, call):
            yield _by_mask(context, call)


def _draws(context: Context) -> Iterator[ast.Call]:
    for call, name in context.facts.external.items():
        package, _, last = name.rpartition(".")
        if name in TORCH_DRAWS or (package in {"random", "numpy.random"} and last not in NO_DRAWS):
            yield call
    made = {text for call, name in context.facts.external.items() if name in GENERATORS for text in _bound_to(context, call)}
    for _, call in context.facts.nodes(ast.Call):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call not in context.facts.external:
            of_row = call.func.attr in catalog.METHOD_DRAWS and any(v.spread is Spread.ROW for v in context.locals(call.func.value))
            if of_row or ast.unparse(call.func.value) in made:
                yield call


def _bound_to(context: Context, call: ast.Call) -> list[str]:
    """The variables and attributes to which the made generator is assigned."""
    statement = context.facts.parents[call]
    return [ast.unparse(target) for target in statement.targets] if isinstance(statement, ast.Assign) else []


def _is_sized_by_mask(context: Context, call: ast.Call) -> bool:
    """`torch.randint(10, (int(mask.sum()),))`: as many as this process's rows for which the mask holds."""
    if context.facts.external.get(call, "").rpartition(".")[2] not in SIZED:
        return False
    sizes = [e for a in [*call.args, *(k.value for k in call.keywords)] for e in (a.elts if isinstance(a, ast.Tuple | ast.List) else [a])]
    return any(v.spread is Spread.SUM for size in sizes for v in context.locals(size))


def _in_loop(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.ERROR,
        message=f"`{quote(call)}` is drawn once for each of this process's rows: the rows get other draws than in the whole batch, and the random streams of the processes part",
        advice="draw in the data set or its collate_fn, or for all rows at once before the loop: draws = accelerator.draw(torch.rand, len(x)), then draws[i]",
    )  # fmt: skip


def _by_mask(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.ERROR,
        message=f"`{quote(call)}` draws as many numbers as a mask picks of this process's rows: the random streams of the processes part",
        advice="draw for all rows and pick afterwards: noise = torch.randint(10, (len(x),)), then noise[mask]",
    )  # fmt: skip
