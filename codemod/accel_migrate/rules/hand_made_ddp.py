"""Hand-written DistributedDataParallel becomes the accelerator's: process group, ranks, wrapper and collectives.

The sampler stays, so that every process sees the samples it saw; so do the rank guards and reductions that the script has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, DropImportIfUnused, Edit, Finding, ReplaceStatement, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.distributed import process_group_calls
from accel_migrate.rules.backward import out_of_reach

ID = "hand-made-ddp"
TITLE = "Replace hand-written DistributedDataParallel"
WHY = "the accelerator makes the process group and averages the gradients"

RANKS = {
    "torch.distributed.get_rank": "@accelerator@.process_index",
    "torch.distributed.get_world_size": "@accelerator@.num_processes",
}
VARIABLES = {"RANK": "process_index", "WORLD_SIZE": "num_processes", "LOCAL_RANK": "local_process_index"}
STATEMENTS = {
    "torch.distributed.barrier": "@accelerator@.wait_for_everyone()",
    "torch.distributed.destroy_process_group": "@accelerator@.end_training()",
}
REDUCTIONS = {"SUM": "sum", "AVG": "mean"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if not context.distributed:
        yield from _optional(context)
        return
    for call in process_group_calls(context.facts):
        if context.facts.statement(call) is not context.home.anchor:
            yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=context.facts.statement(call))
    for call, name in list(context.facts.external.items()):
        try:
            yield from _call(context, call, name)
        except Unreachable:
            yield out_of_reach(context, call)
    for _, node in context.facts.nodes(ast.Attribute):
        if isinstance(node, ast.Attribute) and node.attr == "module" and context.is_model(node.value):
            yield context.replace(ID, node, "{x}", "a prepared model is not wrapped", x=node.value)
    for source in context.facts.sources:
        for name in ("DDP", "DistributedDataParallel", "dist", "os"):
            yield DropImportIfUnused(source=source, rule=ID, name=name)


def _optional(context: Context) -> Iterator[Finding]:
    """A distributed branch that a flag turns on."""
    for call in process_group_calls(context.facts):
        yield Finding(
            source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
            message="a branch of this script makes its own process group; it was left as it is and must stay off",
            advice="start the migrated script with accel launch only; the branch and its flags can go",
        )  # fmt: skip


def _call(context: Context, call: ast.Call, name: str) -> Iterator[Edit | Finding]:
    statement = context.facts.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if name in catalog.DISTRIBUTED_DATA_PARALLEL:
        yield from _unwrap(context, call, statement)
    elif name in RANKS:
        yield context.replace(ID, call, context.say(RANKS[name], call), WHY)
    elif name in STATEMENTS and alone:
        yield context.replace(ID, call, context.say(STATEMENTS[name], call), WHY)
    elif name == "torch.distributed.all_reduce" and alone:
        yield from _reduce(context, call, statement)
    elif name == "int" and not _picks_device(context, call) and (variable := _environment(call)) is not None:
        yield context.replace(ID, call, context.say(f"@accelerator@.{VARIABLES[variable]}", call), WHY)


def _unwrap(context: Context, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
    model = call.args[0] if call.args else call.keywords[0].value
    if isinstance(statement, ast.Assign) and statement.value is call and ast.unparse(statement.targets[0]) == ast.unparse(model):
        yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=statement)
    else:
        yield context.replace(ID, call, "{x}", WHY, x=model)


def _picks_device(context: Context, call: ast.Call) -> bool:
    """Whether `call` is the argument of `set_device`, a statement that goes."""
    parent = context.facts.parents[call]
    return isinstance(parent, ast.Call) and context.facts.external.get(parent) == "torch.cuda.set_device"


def _environment(call: ast.Call) -> str | None:
    """`int(os.environ["RANK"])` and its forms."""
    text = ast.unparse(call)
    for variable in VARIABLES:
        if text.startswith((f"int(os.environ['{variable}']", f"int(os.environ.get('{variable}'", f"int(os.getenv('{variable}'")):
            return variable
    return None


def _reduce(context: Context, call: ast.Call, statement: ast.stmt) -> Iterator[Edit | Finding]:
    """`dist.all_reduce(x)` works in place; `reduce` returns."""
    operation = next((n for n in (*call.args[1:2], *(k.value for k in call.keywords if k.arg == "op"))), None)
    how = REDUCTIONS.get(ast.unparse(operation).rpartition(".")[2] if operation is not None else "SUM")
    if how is None or not isinstance(call.args[0], ast.Name | ast.Attribute | ast.Subscript):
        yield Finding(
            source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
            message="this collective has no counterpart in the accelerator and was left; on one process it has no process group",
            advice='write it with accelerator.gather(...) or accelerator.reduce(..., reduction="sum")',
        )  # fmt: skip
        return
    template = context.say(f'{{x}} = @accelerator@.reduce({{x}}, reduction="{how}")', call)
    yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template=template, parts={"x": call.args[0]})
