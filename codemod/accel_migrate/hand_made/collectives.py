"""Collectives of torch.distributed: those that the accelerator has become its own; others run where there are several processes.

torch.distributed works under the runtime on several processes. On one process there is no group, so that only what is
guarded already may stay as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import AddImport, Edit, Finding, ReplaceStatement, Severity, WrapStatements
from accel_migrate.facts.values import Made, Role
from accel_migrate.hand_made import ID, WHY
from accel_migrate.hand_made.samplers import among_several
from accel_migrate.processes.paragraphs import delete
from accel_migrate.rules.backward import out_of_reach

REDUCTIONS = {"SUM": "sum", "AVG": "mean"}
STATEMENTS = {
    "torch.distributed.barrier": "@accelerator@.wait_for_everyone()",
    "torch.distributed.destroy_process_group": "@accelerator@.end_training()",
}
PLACES = ast.Name | ast.Attribute | ast.Subscript
OTHERS = {
    "all_reduce", "reduce", "broadcast", "broadcast_object_list", "all_gather", "all_gather_object", "gather", "gather_object", "scatter",
    "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "all_to_all", "send", "recv", "isend", "irecv", "monitored_barrier",
    "scatter_object_list", "all_reduce_coalesced",
}  # fmt: skip


def edits(context: Context) -> Iterator[Edit | Finding]:
    for call, name in list(context.facts.external.items()):
        last = name.rpartition(".")[2]
        if not name.startswith("torch.distributed.") or not (name in STATEMENTS or last in OTHERS):
            continue
        try:
            yield from _call(context, call, name, last)
        except Unreachable:
            yield out_of_reach(context, call)


def _call(context: Context, call: ast.Call, name: str, last: str) -> Iterator[Edit | Finding]:
    statement = context.facts.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if name in STATEMENTS and alone:
        guard = _needless_guard(context, statement)
        if guard is not None or not among_several(context, call) or context.accelerator.is_at_hand(call):
            yield context.replace(ID, call, context.say(STATEMENTS[name], call), WHY)
            yield from [delete(context.facts, guard, ID, WHY)] if guard is not None else []
        return
    if alone and _averages_gradients(context, call):
        yield from _without_gradients(context, call, statement)
    elif among_several(context, call) and not context.accelerator.is_at_hand(call):
        return  # right as it is
    elif alone and last in {"all_reduce", "reduce"} and call.args and any(v.grad for v in context.locals(call.args[0])):
        yield from _guarded(context, call, statement, alone)  # in place, gradients take their way past it
    elif alone and last in {"all_reduce", "reduce"} and (how := _reduction(call)) is not None:
        template, imports = _said(context, f'{{x}} = @accelerator@.reduce({{x}}, reduction="{how}")', call)
        yield from imports
        yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template=template, parts={"x": call.args[0]})
    elif alone and last == "all_gather" and len(call.args) >= 2 and isinstance(call.args[0], PLACES):
        yield from _gather(context, call, statement)
    elif alone and last == "all_gather_object" and len(call.args) >= 2 and isinstance(call.args[0], PLACES):
        yield from _gather_objects(context, call, statement)
    elif not among_several(context, call):
        yield from _guarded(context, call, statement, alone)


def _needless_guard(context: Context, statement: ast.stmt) -> ast.If | None:
    """`if not dist.is_initialized(): return` in a function that otherwise only calls the collective `statement`."""
    function = context.facts.parents[statement]
    if not isinstance(function, ast.FunctionDef) or context.facts.scopes[function].enclosing_class is not None:
        return None
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    guard = body[0]
    returns = len(body) == 2 and body[1] is statement and isinstance(guard, ast.If) and not guard.orelse and ast.unparse(guard.body[0]) == "return"
    return guard if returns and among_several(context, statement) else None  # type: ignore[return-value]


def _reduction(call: ast.Call) -> str | None:
    """How `call` reduces, if the accelerator can, and its tensor is something that can be assigned to."""
    name = ast.unparse(call.func).rpartition(".")[2]
    keywords = {k.arg: k.value for k in call.keywords}
    if not call.args or not isinstance(call.args[0], PLACES) or set(keywords) - {"op", "dst", "async_op"}:
        return None
    if "async_op" in keywords and ast.unparse(keywords["async_op"]) != "False":
        return None
    operation = keywords.get("op", next(iter(call.args[1:2] if name == "all_reduce" else call.args[2:3]), None))
    return REDUCTIONS.get(ast.unparse(operation).rpartition(".")[2] if operation is not None else "SUM")


# -- gathering -----------------------------------------------------------------------------------------------
def _gather(context: Context, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
    """`parts = [torch.zeros_like(x) for ...]; dist.all_gather(parts, x)`."""
    joined = _joined(context, call)
    if joined is not None:
        text, imports = _said(context, "@accelerator@.gather({x})", joined)
        yield from imports
        yield context.replace(ID, joined, text, WHY, x=call.args[1])
        yield delete(context.facts, statement, ID, WHY)
        yield from _without_room(context, call.args[0], statement)
        return
    text, imports = _said(context, "{l} = list(@accelerator@.gather({x}).chunk(@accelerator@.num_processes))", call)
    yield from imports
    yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template=text, parts={"l": call.args[0], "x": call.args[1]})
    yield from _without_room(context, call.args[0], statement)


def _joined(context: Context, call: ast.Call) -> ast.Call | None:
    """The `torch.cat(parts)` that alone reads what `all_gather(parts, x)` fills."""
    parts, x = call.args[:2]
    function = context.facts.function(call)
    if not isinstance(parts, ast.Name) or not isinstance(x, ast.Name):
        return None
    reads = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == parts.id and isinstance(n.ctx, ast.Load) and n is not parts]
    rebound = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == x.id and isinstance(n.ctx, ast.Store) and n.lineno >= call.lineno]
    cat = context.facts.parents[reads[0]] if len(reads) == 1 else None
    if rebound or not isinstance(cat, ast.Call) or context.facts.external.get(cat) not in {"torch.cat", "torch.concat"}:
        return None
    dims = [*cat.args[1:], *(k.value for k in cat.keywords)]
    return cat if all(isinstance(d, ast.Constant) and d.value == 0 for d in dims) else None


def _said(context: Context, template: str, node: ast.AST) -> tuple[str, list[Edit]]:
    """`template` at `node`; where the accelerator cannot be had, as in models, with the functions that need none."""
    try:
        if context.in_model(node):
            raise Unreachable
        return context.say(template, node), []
    except Unreachable:
        source, module = context.source(node), context.dialect.module
        names = tuple(name for name in ("gather", "reduce") if f"@accelerator@.{name}(" in template)
        imports: list[Edit] = [AddImport(source=source, rule=ID, why=WHY, module=f"{module}.utils", names=names)]
        if "num_processes" in template:
            imports.append(AddImport(source=source, rule=ID, why=WHY, module=module, names=("PartialState",)))
        return template.replace("@accelerator@.num_processes", "PartialState().num_processes").replace("@accelerator@.", ""), imports


def _gather_objects(context: Context, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
    parts = {"l": call.args[0], "x": call.args[1]}
    yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template="{l} = gather_object([{x}])", parts=parts)
    yield AddImport(source=context.source(call), rule=ID, why=WHY, module=f"{context.dialect.module}.utils", names=("gather_object",))
    yield from _without_room(context, call.args[0], statement)


def _without_room(context: Context, target: ast.expr, statement: ast.stmt) -> Iterator[Edit]:
    """The list that was made to be filled."""
    for other in context.facts.block(statement):
        if other is statement:
            return
        made = isinstance(other, ast.Assign) and isinstance(other.value, ast.ListComp | ast.BinOp) and ast.unparse(other.targets[0]) == ast.unparse(target)
        if made:
            yield delete(context.facts, other, ID, WHY)


# -- gradients -----------------------------------------------------------------------------------------------
def _averages_gradients(context: Context, call: ast.Call) -> bool:
    """`dist.all_reduce(p.grad)`: the accelerator has averaged them already."""
    if not call.args:
        return False
    text = ast.unparse(call.args[0])
    gradients = any(isinstance(v, Made) and v.role is Role.GRADIENTS for v in context.facts.of(call.args[0]))
    return gradients or text.endswith((".grad", ".grad.data"))


def _without_gradients(context: Context, call: ast.Call, statement: ast.stmt) -> Iterator[Edit]:
    """The sum over processes goes, and the division that made it a mean."""
    why = "accelerator.backward averages the gradients"
    yield delete(context.facts, statement, ID, why)
    gradient = ast.unparse(call.args[0]).removesuffix(".data")
    for other in context.facts.block(statement):
        divides = isinstance(other, ast.AugAssign) and isinstance(other.op, ast.Div) and ast.unparse(other.target).removesuffix(".data") == gradient
        divides = divides or (isinstance(other, ast.Expr) and ast.unparse(other).startswith((f"{gradient}.div_(", f"{gradient}.data.div_(")))
        if divides:
            yield delete(context.facts, other, ID, why)


# -- the rest ------------------------------------------------------------------------------------------------
def _guarded(context: Context, call: ast.Call, statement: ast.stmt, alone: bool) -> Iterator[Edit | Finding]:
    """A collective that the accelerator lacks runs where there are several processes."""
    if alone:
        header, imports = context.say_passed("if @accelerator@.use_distributed:", statement, ID)
        yield WrapStatements(source=context.source(call), rule=ID, why="one process has no process group", nodes=(statement,), header=header)
        yield from imports
        return
    yield _left(context, call)


def without_group(context: Context) -> Iterator[Finding]:
    """Collectives of a program that makes no process group, outside of a question whether there is one."""
    for call, name in context.facts.external.items():
        collective = name.startswith("torch.distributed.") and name.rpartition(".")[2] in OTHERS
        if collective and context.facts.function(call) in context.facts.visited and not among_several(context, call):
            yield _left(context, call)


def _left(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
        message="this collective has no counterpart in the accelerator and was left; on one process there is no process group and it fails",
        advice="run it under `if accelerator.use_distributed:`, or write it with accelerator.gather(...) or accelerator.reduce(...)",
    )  # fmt: skip
