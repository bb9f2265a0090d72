"""`GradScaler` and `autocast` become the accelerator's: it scales, unscales, skips and updates."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, DropImportIfUnused, Edit, Finding
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role
from accel_migrate.rules.backward import out_of_reach

ID = "native-amp"
TITLE = "Leave mixed precision to the accelerator"
WHY = "the accelerator owns the gradient scaler and the precision"


def apply(context: Context) -> Iterator[Edit | Finding]:
    scalers = list(context.calls_of(*catalog.SCALERS))
    autocasts = list(context.calls_of(*catalog.AUTOCASTS))
    if not scalers and not autocasts:
        return
    _choose_precision(context, scalers, autocasts)
    for call in scalers:
        statement = context.facts.statement(call)
        if isinstance(statement, ast.Assign) and statement.value is call:
            yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=statement)
    yield from _autocasts(context, autocasts)
    yield from _scaler_methods(context)
    for source in context.facts.sources:
        for name in ("GradScaler", "autocast", "amp"):
            yield DropImportIfUnused(source=source, rule=ID, name=name)


def _choose_precision(context: Context, scalers: list[ast.Call], autocasts: list[ast.Call]) -> None:
    precision = "bf16" if any("bfloat16" in ast.unparse(c) for c in autocasts) and not scalers else "fp16"
    if autocasts and not scalers and any(_device_type(c) == "cpu" for c in autocasts):
        precision = "bf16"
    condition = next((k.value for c in [*scalers, *autocasts] for k in c.keywords if k.arg == "enabled"), None)
    if condition is None or (isinstance(condition, ast.Constant) and condition.value is True):
        context.settings["mixed_precision"] = f'"{precision}"'
    else:
        context.settings["mixed_precision"] = f'"{precision}" if {ast.unparse(condition)} else "no"'


def _device_type(call: ast.Call) -> object:
    nodes = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device_type")]
    return nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None


def _autocasts(context: Context, autocasts: list[ast.Call]) -> Iterator[Edit | Finding]:
    for call in autocasts:
        try:
            yield context.replace(ID, call, context.say("@accelerator@.autocast()", call), WHY)
        except Unreachable:
            yield out_of_reach(context, call)


def _scaler_methods(context: Context) -> Iterator[Edit | Finding]:
    for call, (base, name) in context.facts.methods.items():
        if not any(context.facts.role(v) is Role.SCALER for v in base) or not isinstance(call.func, ast.Attribute):
            continue
        statement = context.facts.statement(call)
        source = context.source(call)
        if name in {"unscale_", "update"} and isinstance(statement, ast.Expr):
            yield DeleteStatement(source=source, rule=ID, why="the accelerator does this", node=statement)
        elif name == "step" and call.args:
            extra = "".join(f", {{a{i}}}" for i in range(1, len(call.args)))[2:]
            parts = {f"a{i}": a for i, a in enumerate(call.args)}
            yield context.replace(ID, call, f"{{a0}}.step({extra})", WHY, **parts)
        elif name in {"state_dict", "load_state_dict"}:
            yield context.replace(ID, call.func.value, context.say("@accelerator@.scaler", call), WHY)
