"""Hugging Face Accelerate wraps a prepared model: what the wrapper hides is read from the model inside.

Attributes, layers, methods and names of parameters go through `unwrap_model`. A method that trains does not: called on
the model inside, its gradients would never be averaged. That is an error for a person to mend.

The id sorts before `accelerator`, whose `finish` passes the accelerator to where it is taken here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import AddImport, Edit, Finding, Inner, InsertAfter, InsertBefore, Severity
from accel_migrate.facts.values import Role
from accel_migrate.order import Before
from accel_migrate.plan import Plan
from accel_migrate.rules.prepare import prepared_sites
from accel_migrate.side_effects import runs_of, writing_statements

ID = "accelerate-models"
TITLE = "Reach through Accelerate's wrapper of a model"
WHY = "a prepared model is wrapped on several processes"

VISIBLE = {
    "forward", "train", "eval", "training", "parameters", "buffers", "modules", "zero_grad", "requires_grad_", "apply",
    "to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type", "share_memory", "register_forward_hook",
}  # fmt: skip
"""Attributes that mean the same on the wrapper."""
WHOLE = {
    "isinstance", "type", "len", "list", "hasattr", "getattr", "setattr", "vars", "copy.deepcopy", "copy.copy", "torch.save",
    "pickle.dump", "pickle.dumps", "torch.jit.script", "torch.jit.trace", "torch.onnx.export", "torch.export.export",
    "torch.optim.swa_utils.AveragedModel", "torchinfo.summary", "torchsummary.summary",
}  # fmt: skip
"""Functions that look at the model they are given first."""


def apply(context: Context) -> Iterator[Edit | Finding]:
    """Everything waits until it is known where models are prepared and which reads other rules replace."""
    return iter(())


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    if not context.dialect.wraps:
        return
    models = {site for site, role in prepared_sites(context) if role is Role.MODEL}
    order = Before.preparation(context.facts, plan)
    places: dict[ast.expr, None] = {}
    for read, whole in (*_hidden(context), *_guarded_forwards(context)):
        base = read.value if isinstance(read, ast.Attribute) and context.is_wrapped(read) else read  # `model.module` becomes `model`
        if context.in_model(base) or not _is_one_of(context, base, models):
            continue
        if _is_gone(context, plan, whole) or order.is_before(base) or _is_inside(context, plan, base, models):
            continue
        training = _training_call(context, whole)
        if training is not None:
            yield _trains_around_forward(context, training)
        else:
            places.update(dict.fromkeys(_where_to_unwrap(context, order, base)))
    for place in places:
        yield from _unwrap(context, place)


def _is_one_of(context: Context, node: ast.expr, models: set[ast.AST]) -> bool:
    return any(context.facts.role(v) is Role.MODEL and v.site in models for v in context.facts.of(node))  # type: ignore[union-attr]


def _is_gone(context: Context, plan: Plan, node: ast.expr) -> bool:
    """Whether an edit drops `node`; what moves to another line (a gathered forward pass) is still there."""
    if not plan.is_removed(node):
        return False
    moved = [p.node for e in plan.edits if isinstance(e, InsertBefore | InsertAfter) for p in e.parts.values() if isinstance(p, Inner)]
    return not any(context.facts.inside(node, part) for part in moved)


def _is_inside(context: Context, plan: Plan, node: ast.expr, models: set[ast.AST]) -> bool:
    """Whether `node` is a layer that is reached by way of a model, and so by way of what unwraps it."""
    if not isinstance(node, ast.Subscript | ast.Attribute) or plan.is_removed(node):
        return False
    return _is_one_of(context, node.value, models)


def _hidden(context: Context) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What may be a model, and the expression around it that needs the model inside."""
    for _, node in context.facts.nodes(ast.Attribute, ast.Subscript, ast.For, ast.comprehension):
        if isinstance(node, ast.Attribute):
            if node.attr not in VISIBLE:
                yield node.value, node
        elif isinstance(node, ast.Subscript):
            yield node.value, node
        else:
            yield node.iter, node.iter  # type: ignore[attr-defined]
    for call in context.calls_of(*WHOLE):
        if call.args:
            yield call.args[0], call.args[0]


def _guarded_forwards(context: Context) -> Iterator[tuple[ast.expr, ast.expr]]:
    """A forward pass on the main process only: the wrapper would wait for the others."""
    guarded = [s for run in runs_of(context.facts, writing_statements(context.facts)) for s in run]
    for call in context.facts.forwards:
        if any(context.facts.inside(call, statement) for statement in guarded):
            yield call.func, call.func


def _training_call(context: Context, node: ast.expr) -> ast.Call | None:
    """The call of a method or layer, reached by way of `node`, on rows of a training loop while gradients are recorded."""
    facts = context.facts
    parent = facts.parents[node]
    while isinstance(parent, ast.Attribute | ast.Subscript) and parent.value is node:
        node, parent = parent, facts.parents[parent]
    if not isinstance(parent, ast.Call) or parent.func is not node:
        return None
    forward = facts.forwards.get(parent)
    if forward is None or not forward.recorded:
        return None
    return parent if any(c is not None and facts.loops[c].trains for c in forward.contexts) else None


def _trains_around_forward(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.ERROR,
        message=f"`{ast.unparse(call.func)}` trains the model around forward(): Accelerate's wrapper has no such method, and on the model inside gradients would not be averaged",
        advice="let forward() do this work (or call it by an argument) and call the model itself; --target accel_runtime trains through any method",
    )  # fmt: skip


# -- where ---------------------------------------------------------------------------------------------
def _where_to_unwrap(context: Context, order: Before, base: ast.expr) -> list[ast.expr]:
    """`base` itself, or what the callers pass for it, where its function has no accelerator and never runs the model."""
    function = context.facts.function(base)
    if context.accelerator.is_at_hand(base) or not isinstance(base, ast.Name) or not isinstance(function, ast.FunctionDef):
        return [base]
    index = next((i for i, a in enumerate(function.args.args) if a.arg == base.id), None)
    callers = context.facts.callers.get(function, {})
    if index is None or not callers or function in context.facts.called_back or not _only_looks(context, function, base.id):
        return [base]
    given = {call: context.accelerator.argument(call, function, index) for call in callers if not order.is_before(call)}
    if any(node is None or not context.accelerator.is_at_hand(node) for node in given.values()):
        return [base]
    return [node for node in given.values() if node is not None]


def _only_looks(context: Context, function: ast.FunctionDef, name: str) -> bool:
    """Whether `function` neither calls its parameter `name` nor hands it on."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            parent = context.facts.parents[node]
            if not isinstance(node.ctx, ast.Load) or not isinstance(parent, ast.Attribute | ast.Subscript) or parent.value is not node:
                return False
    return True


def _unwrap(context: Context, base: ast.expr) -> Iterator[Edit]:
    try:
        if not context.accelerator.is_at_hand(base):
            raise Unreachable
        text = context.say("@accelerator@.unwrap_model({x})", base)
    except Unreachable:
        text = "extract_model_from_parallel({x})"
        yield AddImport(source=context.source(base), rule=ID, why=WHY, module=context.dialect.utils_module, names=("extract_model_from_parallel",))
    yield context.replace(ID, base, text, WHY, x=Inner(base))
