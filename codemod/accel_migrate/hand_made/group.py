"""The process group and everything that only serves to make it go."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import DropImportIfUnused, Edit, Finding, Severity, UnwrapStatement
from accel_migrate.facts.distributed import process_group_calls, ranks_of
from accel_migrate.facts.rank_names import LAUNCHER_SETTINGS, Kind
from accel_migrate.facts.values import Ref
from accel_migrate.hand_made import ID, WHY
from accel_migrate.processes.paragraphs import delete
from accel_migrate.processes.settings import SAYING, settings_of_groups, talk_of_settings
from accel_migrate.side_effects import runs_models

DESTROY = {"torch.distributed.destroy_process_group", "torch.distributed.distributed_c10d.destroy_process_group"}
DEVICE_SETTERS = {"torch.accelerator.set_device_index", "torch.accelerator.set_device", "torch.cuda.device"}


def optional_groups(context: Context) -> Iterator[Finding]:
    """A distributed branch that a flag turns on, and that could not be taken out."""
    for call in process_group_calls(context.facts):
        yield Finding(
            source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
            message="a branch of this script makes its own process group; it was left as it is and must stay off",
            advice="start the migrated script with accel launch only; the branch and its flags can go",
        )  # fmt: skip


def edits(context: Context) -> Iterator[Edit]:
    for call in process_group_calls(context.facts):
        statement = context.facts.statement(call)
        if statement is not context.home.anchor:
            yield delete(context.facts, statement, ID, WHY)
    ranks = ranks_of(context.facts)
    for node in talk_of_settings(context.facts, ranks, settings_of_groups(context.facts, ranks)):
        yield delete(context.facts, node, ID, WHY)
    yield from _environment(context)
    yield from _setups(context)
    yield from _ends(context)
    for call in context.calls_of(*DEVICE_SETTERS):
        chosen = any(context.facts.inside(call, choice.statement) for choice in context.home.choices)
        if isinstance(context.facts.parents[call], ast.Expr) and not chosen:
            yield delete(context.facts, context.facts.statement(call), ID, "the accelerator picks the device")
    for source in context.facts.sources:
        for name in ("DDP", "DistributedDataParallel", "dist", "os"):
            yield DropImportIfUnused(source=source, rule=ID, name=name)


def _environment(context: Context) -> Iterator[Edit]:
    """`os.environ["MASTER_ADDR"] = ...`: the launcher says that."""
    for _, node in context.facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and is_environment(context, target.value) and _is_setting(target.slice):
            yield delete(context.facts, node, ID, WHY)
    for call in context.calls_of("os.environ.setdefault", "os.putenv"):
        if call.args and _is_setting(call.args[0]) and isinstance(context.facts.parents[call], ast.Expr):
            yield delete(context.facts, context.facts.statement(call), ID, WHY)


def is_environment(context: Context, node: ast.expr) -> bool:
    return any(isinstance(v, Ref) and v.name == "os.environ" for v in context.facts.of(node))


def _is_setting(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in LAUNCHER_SETTINGS


# -- functions that set everything up --------------------------------------------------------------------
def setup_functions(context: Context) -> list[ast.FunctionDef]:
    """Functions that make the process group and train nothing themselves."""
    found = dict.fromkeys(context.facts.function(call) for call in process_group_calls(context.facts))
    return [f for f in found if isinstance(f, ast.FunctionDef) and not runs_models(context.facts, f) and f is not context.home.scope.node]


def _setups(context: Context) -> Iterator[Edit]:
    """Finding out who one is, saying so, and waiting for the others."""
    for function in setup_functions(context):
        for statement in function.body:
            if _finds_out(context, statement):
                yield delete(context.facts, statement, ID, WHY)
        for node in ast.walk(function):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _serves_the_group(context, node.value):
                yield delete(context.facts, node, ID, WHY)
        yield from _devices(context, function)


def _devices(context: Context, function: ast.FunctionDef) -> Iterator[Edit]:
    """The device that a setup function returns, on its branch for the CPU too."""
    ranks = ranks_of(context.facts)
    returned = [n for r in ast.walk(function) if isinstance(r, ast.Return) and r.value for n in ast.walk(r.value) if isinstance(n, ast.Call)]
    devices = [c for c in returned if context.facts.external.get(c) == "torch.device"]
    if any(ranks.of(a) is not None for c in devices for a in ast.walk(c) if isinstance(a, ast.expr)):
        for call in devices:
            yield context.replace(ID, call, context.say_passed("@accelerator@.device", call, ID)[0], "the accelerator picks the device")


def _finds_out(context: Context, statement: ast.stmt) -> bool:
    """An `if` (and its `elif`s) that asks the environment whether there are processes, and keeps ranks or returns."""
    if not isinstance(statement, ast.If):
        return False
    tests, bodies = [], []
    chain: list[ast.stmt] = [statement]
    while len(chain) == 1 and isinstance(chain[0], ast.If):
        tests.append(chain[0].test)
        bodies.append(chain[0].body)
        chain = chain[0].orelse
    meanings = [ranks_of(context.facts).of(test) for test in tests]
    asks = any(m is not None and m.kind is Kind.FLAG for m in meanings)
    return asks and all(_only_keeps(context, s) for body in (*bodies, chain) for s in body)


def _only_keeps(context: Context, statement: ast.stmt) -> bool:
    """Whether `statement` keeps a rank or a switch, says something, sets a launcher's variable, or returns nothing."""
    if isinstance(statement, ast.Return):
        return statement.value is None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        name = context.facts.external.get(statement.value, "")
        return name in SAYING or name in {"torch.cuda.set_device", *DEVICE_SETTERS} or _is_repeated(context, statement)
    if isinstance(statement, ast.Assign):
        ranks = ranks_of(context.facts)
        place = ranks.place(statement.targets[0])
        environment = isinstance(statement.targets[0], ast.Subscript) and is_environment(context, statement.targets[0].value)
        known = place is not None and (place in ranks.given or place in ranks.places or place in settings_of_groups(context.facts, ranks))
        return environment or known or ranks.of(statement.value) is not None or isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass)


def _is_repeated(context: Context, statement: ast.Expr) -> bool:
    """Whether the function calls the same helper at its end, whoever it is: `setup_for_distributed(args.rank == 0)`."""
    function = context.facts.function(statement)
    callees = context.facts.callees.get(statement.value, set())  # type: ignore[call-overload]
    others = [s.value for s in getattr(function, "body", []) if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
    return any(context.facts.callees.get(call, set()) & callees for call in others)


def _serves_the_group(context: Context, call: ast.Call) -> bool:
    """A barrier right after the group is made, or a line that says which rank this is."""
    name = context.facts.external.get(call, "")
    if name == "torch.distributed.barrier":
        return True
    ranks = ranks_of(context.facts)
    mentioned = [n for a in [*call.args, *(k.value for k in call.keywords)] for n in ast.walk(a) if isinstance(n, ast.expr)]
    return name in SAYING and any((m := ranks.of(n)) is not None and m.kind in {Kind.RANK, Kind.LOCAL_RANK, Kind.WORLD} for n in mentioned)


# -- the end ----------------------------------------------------------------------------------------------
def _ends(context: Context) -> Iterator[Edit]:
    """`if dist.is_initialized(): dist.destroy_process_group()` needs no condition."""
    for call in context.calls_of(*DESTROY):
        statement = context.facts.statement(call)
        parent = context.facts.parents[statement]
        if isinstance(parent, ast.If) and not parent.orelse and parent.body == [statement] and _asks_for_group(context, parent.test):
            yield UnwrapStatement(source=context.source(call), rule=ID, why=WHY, node=parent)


def _asks_for_group(context: Context, test: ast.expr) -> bool:
    meaning = ranks_of(context.facts).of(test)
    return meaning is not None and meaning.kind is Kind.FLAG and not meaning.negated



