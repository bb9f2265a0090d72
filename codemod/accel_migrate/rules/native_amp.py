"""`GradScaler` and `autocast` become the accelerator's: it scales, unscales, skips and updates."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import DropImportIfUnused, Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.precision import Precision, is_off, mixed_precision
from accel_migrate.rules.backward import out_of_reach
from accel_migrate.scalers import Scalers

ID = "native-amp"
TITLE = "Leave mixed precision to the accelerator"
WHY = "the accelerator owns the gradient scaler and the precision"


def apply(context: Context) -> Iterator[Edit | Finding]:
    scalers = [c for c in context.calls_of(*catalog.SCALERS) if not is_off(c)]
    autocasts = [c for c in context.calls_of(*catalog.AUTOCASTS) if not is_off(c)]
    if not scalers and not autocasts:
        return
    precision = mixed_precision(context, scalers, autocasts)
    if not precision.known and not scalers:
        return  # the regions work as they are
    if not precision.known:
        yield _unknown(context, (precision.regions or scalers)[0], precision)
    if precision.text != '"no"':
        context.settings["mixed_precision"] = precision.text
    yield from _autocasts(context, precision.regions)
    yield from Scalers(context, ID, WHY, _may_be_off(context, precision)).edits()
    yield from _scaler_options(context, scalers)
    for source in context.facts.sources:
        for name in ("GradScaler", "autocast", "amp"):
            yield DropImportIfUnused(source=source, rule=ID, name=name)


def _may_be_off(context: Context, precision: Precision) -> bool:
    return not precision.known or precision.optional or precision.text == '"no"' or "bf16" in precision.text or not context.dialect.scales_on_cpu


def _unknown(context: Context, node: ast.AST, precision: Precision) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
        message=f"the precision depends on something that is not known where the accelerator is made; mixed_precision={precision.text} was chosen",
        advice='write what decides it there: Accelerator(mixed_precision="bf16" if ... else "fp16" if ... else "no")',
    )  # fmt: skip


def _autocasts(context: Context, autocasts: list[ast.Call]) -> Iterator[Edit | Finding]:
    for call in autocasts:
        if context.in_model(call):
            continue  # a region inside a model works as it is
        try:
            yield context.replace(ID, call, context.say("@accelerator@.autocast()", call), WHY)
        except Unreachable:
            yield out_of_reach(context, call)


def _scaler_options(context: Context, scalers: list[ast.Call]) -> Iterator[Finding]:
    """Settings of the scaler, which the accelerator's does not have."""
    for call in scalers:
        given = [k for k in call.keywords if k.arg not in {"enabled", "device"}]
        if given:
            names = ", ".join(ast.unparse(k) for k in given)
            yield Finding(
                source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
                message=f"the gradient scaler was made with {names}; the accelerator's has torch's defaults",
                advice=f"make the accelerator with kwargs_handlers=[GradScalerKwargs({names})]",
            )  # fmt: skip
