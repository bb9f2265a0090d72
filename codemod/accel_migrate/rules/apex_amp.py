"""`apex.amp` becomes the accelerator's mixed precision: `amp.initialize`, `amp.scale_loss`, `amp.master_params`.

O1 is what `mixed_precision="fp16"` does. O2 and O3 keep the model itself in half precision, which the accelerator does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.at_home import NotAtHome, at_home
from accel_migrate.context import Context
from accel_migrate.edits import (
    DeleteStatement,
    DropImportIfUnused,
    Edit,
    Finding,
    ReplaceStatement,
    Severity,
    UnwrapStatement,
    WrapStatements,
)
from accel_migrate.rules.backward import out_of_reach

ID = "apex-amp"
TITLE = "Replace apex.amp by the accelerator's mixed precision"
WHY = "the accelerator owns the gradient scaler and the precision"
PARAMETERS = '[p for group in {x}.param_groups for p in group["params"]]'


def apply(context: Context) -> Iterator[Edit | Finding]:
    calls = [c for c, name in context.facts.external.items() if name.startswith("apex.amp.")]
    for call in context.calls_of("apex.amp.initialize"):
        yield from _initialize(context, call)
    for call in context.calls_of("apex.amp.scale_loss"):
        yield from _scaled(context, call)
    for call in context.calls_of("apex.amp.master_params"):
        if call.args and not _goes_with_branch(context, call):
            yield context.replace(ID, call, PARAMETERS, WHY, x=call.args[0])
    for node in _branches(context, calls):
        yield UnwrapStatement(source=context.source(node), rule=ID, why=WHY, node=node, branch="orelse")
    yield from _states(context)
    if calls:
        yield from _imports(context)


# -- setting it up ------------------------------------------------------------------------------------------
def _initialize(context: Context, call: ast.Call) -> Iterator[Edit | Finding]:
    statement = context.facts.statement(call)
    given = {k.arg: k.value for k in call.keywords}
    level = given.get("opt_level")
    try:
        context.settings["mixed_precision"] = _precision(context, statement, level)
    except NotAtHome:
        context.settings["mixed_precision"] = '"fp16"'
        yield _decided_elsewhere(context, call)
    parts = [*call.args[:2], *(given[n] for n in ("models", "optimizers") if n in given)]
    if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]).strip("()") == ", ".join(ast.unparse(p) for p in parts):
        yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=statement)
    elif isinstance(statement, ast.Assign) and statement.value is call:
        names: dict[str, ast.AST] = {f"x{i}": p for i, p in enumerate(parts)} | {"t": statement.targets[0]}
        template = f"{{t}} = {', '.join(f'{{x{i}}}' for i in range(len(parts)))}"
        yield ReplaceStatement(source=context.source(call), rule=ID, why=WHY, node=statement, template=template, parts=names)
    if not (isinstance(level, ast.Constant) and level.value in {"O0", "O1"}) and level is not None:
        yield Finding(
            source=context.source(call), node=call, rule=ID, severity=Severity.INFO,
            message="apex's O2 and O3 keep the model in half precision; the accelerator keeps its weights in full precision and computes by autocast, as O1 does",
            advice="compare the losses of the first epochs",
        )  # fmt: skip


def _precision(context: Context, statement: ast.stmt, level: ast.expr | None) -> str:
    kind = '"fp16"'
    guard = context.facts.parents[statement]
    if isinstance(level, ast.Constant):
        kind = '"no"' if level.value == "O0" else kind
    elif level is not None:
        kind = f'"no" if {at_home(context, level)} == "O0" else "fp16"'
    if isinstance(guard, ast.If) and "__name__" not in ast.unparse(guard.test) and statement in guard.body and kind != '"no"':
        test = at_home(context, guard.test)
        return f'"fp16" if {test} and {at_home(context, level)} != "O0" else "no"' if " if " in kind and level is not None else f'"fp16" if {test} else "no"'
    return kind


def _decided_elsewhere(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
        message="whether apex is used, and at which level, is not known where the accelerator is made: it is made with fp16",
        advice='choose by the same settings there: Accelerator(mixed_precision="fp16" if ... else "no")',
    )  # fmt: skip


# -- losses and gradients -------------------------------------------------------------------------------------
def _scaled(context: Context, call: ast.Call) -> Iterator[Edit | Finding]:
    """`with amp.scale_loss(loss, optimizer) as scaled: scaled.backward()` is `loss.backward()`."""
    statement = context.facts.statement(call)
    if not isinstance(statement, ast.With) or len(statement.items) != 1 or not call.args or _goes_with_branch(context, call):
        return
    target = statement.items[0].optional_vars
    yield UnwrapStatement(source=context.source(call), rule=ID, why=WHY, node=statement)
    if isinstance(target, ast.Name):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
                yield context.replace(ID, node, "{x}", WHY, x=call.args[0])


def _branches(context: Context, calls: list[ast.Call]) -> Iterator[ast.If]:
    """`if args.fp16: <by apex> else: <the same without>`."""
    seen: set[ast.AST] = set()
    for call in calls:
        node = _branch(context, call)
        if node is not None and node not in seen:
            seen.add(node)
            yield node


def _goes_with_branch(context: Context, call: ast.Call) -> bool:
    return _branch(context, call) is not None


def _branch(context: Context, call: ast.Call) -> ast.If | None:
    if context.facts.external[call] not in {"apex.amp.scale_loss", "apex.amp.master_params"}:
        return None
    statement = context.facts.statement(call)
    parent = context.facts.parents[statement]
    alike = isinstance(parent, ast.If) and statement in parent.body and len(parent.orelse) == len(parent.body)
    return parent if alike and not isinstance(parent.orelse[0], ast.If) else None  # type: ignore[union-attr, return-value]


# -- checkpoints and imports -----------------------------------------------------------------------------------
def _states(context: Context) -> Iterator[Edit | Finding]:
    for call in context.calls_of("apex.amp.state_dict"):
        try:
            text = context.say("@accelerator@.scaler.state_dict() if @accelerator@.scaler is not None else {{}}", call)
            yield context.replace(ID, call, text, WHY)
        except Unreachable:
            yield out_of_reach(context, call)
    for call in context.calls_of("apex.amp.load_state_dict"):
        statement = context.facts.statement(call)
        try:
            yield context.replace(ID, call.func, context.say("@accelerator@.scaler.load_state_dict", call), WHY)
            header = context.say("if @accelerator@.scaler is not None:", call)
            yield WrapStatements(source=context.source(call), rule=ID, why=WHY, nodes=(statement,), header=header)
        except Unreachable:
            yield out_of_reach(context, call)
        yield Finding(
            source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
            message="the state of apex's loss scaler has another format than the accelerator's: that of old checkpoints cannot be loaded",
            advice="skip it for checkpoints that were saved before the migration; the scaler finds its scale again within some steps",
        )  # fmt: skip


def _imports(context: Context) -> Iterator[Edit]:
    """Imports of apex, tried or not; a check whether it is installed goes with them."""
    for source, node in context.facts.nodes(ast.Try):
        assert isinstance(node, ast.Try)
        imports = [s for s in node.body if isinstance(s, ast.Import | ast.ImportFrom) and _of_apex(s)]
        complains = all(isinstance(s, ast.Raise | ast.Pass | ast.Expr) for h in node.handlers for s in h.body)
        if imports and len(imports) == len(node.body) and complains and not node.orelse and not node.finalbody:
            yield DeleteStatement(source=source, rule=ID, why=WHY, node=node)
    for source in context.facts.sources:
        for name in ("amp", "apex"):
            yield DropImportIfUnused(source=source, rule=ID, name=name)


def _of_apex(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] == "apex"
    return all(alias.name.split(".")[0] == "apex" for alias in node.names)
