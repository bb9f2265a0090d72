"""The model comes out of its wrapper: `DDP(model, ...)`, `.module`, `no_sync`, synchronised BatchNorm."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import AddImport, DeleteStatement, Edit, Finding, Severity, UnwrapStatement
from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.hand_made import ID, WHY
from accel_migrate.rules.backward import out_of_reach

APEX_SYNC = {"apex.parallel.convert_syncbn_model"}
NEEDED_BY_ACCELERATE = {"find_unused_parameters", "static_graph", "broadcast_buffers", "bucket_cap_mb", "gradient_as_bucket_view"}
NEEDED_BY_RUNTIME = {"broadcast_buffers", "bucket_cap_mb"}


def edits(context: Context) -> Iterator[Edit | Finding]:
    for call in context.calls_of(*catalog.DISTRIBUTED_DATA_PARALLEL):
        yield from unwrapped(context, call, ID, WHY)
        _keep_settings(context, call)
    if "kwargs_handlers" in context.settings:
        names = ("DistributedDataParallelKwargs",)
        yield AddImport(source=context.home.source, rule=ID, why=WHY, module=context.dialect.utils_module, names=names)
    yield from without_questions(context, ID)
    for _, node in context.facts.nodes(ast.Attribute):
        yield from _inside(context, node)
    yield from _no_sync(context)
    yield from _switched_by_hand(context)
    for call in context.calls_of(*APEX_SYNC):
        yield context.replace(ID, call, "torch.nn.SyncBatchNorm.convert_sync_batchnorm({x})", "apex is not needed", x=call.args[0])
        yield AddImport(source=context.source(call), rule=ID, module="torch")


def unwrapped(context: Context, call: ast.Call, rule: str, why: str) -> Iterator[Edit]:
    """`model = DDP(model)` goes; `wrapped = DDP(model)` is another name for the model, and goes if it can."""
    statement = context.facts.statement(call)
    model = call.args[0] if call.args else call.keywords[0].value
    source = context.source(call)
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        target = statement.targets[0]
        if ast.unparse(target) == ast.unparse(model) or _holds_already(context, statement, target, model):
            yield DeleteStatement(source=source, rule=rule, why=why, node=statement)
            return
        reads = _reads_of_alias(context.facts, target, model)
        if reads is not None:
            yield DeleteStatement(source=source, rule=rule, why=why, node=statement)
            for node in reads:
                yield context.replace(rule, node, ast.unparse(model), why)
            return
    yield context.replace(rule, call, "{x}", why, x=model)


def _holds_already(context: Context, statement: ast.stmt, target: ast.expr, model: ast.expr) -> bool:
    """Whether a statement above puts the same model into `target`: `self.model = model.to(device)`."""
    for other in context.facts.block(statement):
        if other is statement:
            return False
        if isinstance(other, ast.Assign) and ast.unparse(other.targets[0]) == ast.unparse(target):
            value = other.value
            while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {"to", "cuda"}:
                value = value.func.value
            if ast.unparse(value) == ast.unparse(model):
                return True
    return False


def _reads_of_alias(facts: Facts, target: ast.expr, model: ast.expr) -> list[ast.Name] | None:
    """The reads of the variable `target`, if it can only mean the variable `model` of the same function."""
    if not isinstance(target, ast.Name) or not isinstance(model, ast.Name):
        return None
    scope = facts.scope(target)
    if scope.owner(model.id) is not scope or scope.parent is None or any(target.id in child.bound for child in scope.children.values()):
        return None
    named = [n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and n.id == target.id]
    stores = [n for n in ast.walk(scope.node) if isinstance(n, ast.Name) and n.id in {target.id, model.id} and isinstance(n.ctx, ast.Store) and n.lineno >= target.lineno]
    return [n for n in named if n is not target] if stores == [target] else None


def _keep_settings(context: Context, call: ast.Call) -> None:
    """Keyword arguments of the wrapper that change what it does."""
    wanted = NEEDED_BY_ACCELERATE if context.dialect.wraps else NEEDED_BY_RUNTIME
    given = [f"{k.arg}={ast.unparse(k.value)}" for k in call.keywords if k.arg in wanted and _differs(k)]
    if given:
        context.settings["kwargs_handlers"] = f"[DistributedDataParallelKwargs({', '.join(given)})]"


def _differs(keyword: ast.keyword) -> bool:
    """Whether the argument is not DDP's default."""
    default = {"broadcast_buffers": True, "bucket_cap_mb": 25}.get(keyword.arg or "", False)
    return isinstance(keyword.value, ast.Constant) and keyword.value.value != default


# -- .module ------------------------------------------------------------------------------------------------
def without_questions(context: Context, rule: str) -> Iterator[Edit]:
    """`model.module if hasattr(model, "module") else model`, and the same as a statement: a prepared model is not wrapped."""
    why = "a prepared model is not wrapped"
    for source, node in context.facts.nodes(ast.IfExp, ast.If):
        assert isinstance(node, ast.IfExp | ast.If)
        if not asks_for_wrapper(context, node.test):
            continue
        if isinstance(node, ast.IfExp):
            yield context.replace(rule, node, "{x}", why, x=node.orelse)
        else:
            yield UnwrapStatement(source=source, rule=rule, why=why, node=node, branch="orelse")


def _inside(context: Context, node: ast.AST) -> Iterator[Edit]:
    assert isinstance(node, ast.Attribute)
    if any(isinstance(a, ast.IfExp) and asks_for_wrapper(context, a.test) for a in context.facts.ancestors(node)):
        return
    if context.is_wrapped(node):
        yield context.replace(ID, node, "{x}", "a prepared model is not wrapped", x=node.value)


def asks_for_wrapper(context: Context, test: ast.expr) -> bool:
    """`hasattr(model, "module")`, `isinstance(model, DDP)`."""
    if not isinstance(test, ast.Call) or len(test.args) != 2 or not context.is_model(test.args[0]):
        return False
    if context.facts.external.get(test) == "hasattr":
        return isinstance(test.args[1], ast.Constant) and test.args[1].value == "module"
    wrappers = catalog.DISTRIBUTED_DATA_PARALLEL | catalog.DATA_PARALLEL
    kinds = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
    return all(any(getattr(v, "name", "") in wrappers for v in context.facts.of(kind)) for kind in kinds)


# -- accumulation -------------------------------------------------------------------------------------------
def _switched_by_hand(context: Context) -> Iterator[Finding]:
    """`model.require_backward_grad_sync = last`: an attribute of the wrapper, which is gone."""
    for _, node in context.facts.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if node.attr == "require_backward_grad_sync" and isinstance(node.ctx, ast.Store) and context.is_model(node.value):
            yield Finding(
                source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
                message="only DistributedDataParallel reads this attribute: every backward pass averages the gradients now, which is right and slower",
                advice="run all backward passes but the last of a step under `with accelerator.no_sync(model):`, and delete this line",
            )  # fmt: skip


def _no_sync(context: Context) -> Iterator[Edit | Finding]:
    for _, node in context.facts.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if node.attr != "no_sync" or not context.is_model(node.value):
            continue
        parent = context.facts.parents[node]
        try:
            if isinstance(parent, ast.Call) and parent.func is node:
                yield context.replace(ID, parent, context.say("@accelerator@.no_sync({x})", node), WHY, x=node.value)
            elif not context.dialect.wraps:
                yield context.replace(ID, node, context.say("@accelerator@.no_sync", node), WHY)
            else:
                yield Finding(
                    source=context.source(node), node=node, rule=ID, severity=Severity.ERROR,
                    message="`no_sync` of the wrapped model is taken without a call; a prepared model is wrapped on several processes only",
                    advice="write accelerator.no_sync(model) where the context manager is entered",
                )  # fmt: skip
        except Unreachable:
            yield out_of_reach(context, node)
