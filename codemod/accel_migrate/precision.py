"""Which mixed precision a script trains in: that of its autocast regions; a scaler alone says when, not in what.

A scaler that is switched off does not switch off autocast: bfloat16 trains without one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel_migrate.at_home import NotAtHome, at_home
from accel_migrate.context import Context
from accel_migrate.precision_names import known_names, precision_name
from accel_migrate.scalers import is_scaler

ENABLED_FIRST = {"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"}

GPU = "torch.cuda.is_available()"
BY_DEVICE = f'"fp16" if {GPU} else "bf16"'
"""The default of `torch.autocast`: float16 on a GPU, bfloat16 on the CPU."""


@dataclass(frozen=True)
class Precision:
    """The argument `mixed_precision`; `known` is False where it is a guess, because it depends on what is not known there.

    `optional` tells whether it may turn out to be "no"; `regions` are the autocast calls that run in it.
    """

    text: str
    optional: bool = False
    known: bool = True
    regions: list[ast.Call] = field(default_factory=list)


def mixed_precision(context: Context, scalers: list[ast.Call], autocasts: list[ast.Call]) -> Precision:
    """The precision of `scalers` and `autocasts`, none of which is switched off for good."""
    if not autocasts:
        return _of_scalers(context, scalers)
    found = {call: _of_region(context, call, scalers) for call in sorted(autocasts, key=lambda c: not _trains(context, c))}
    chosen = next(iter(found.values()))
    same = [call for call, precision in found.items() if precision.text == chosen.text or not chosen.known]
    return Precision(chosen.text, chosen.optional, chosen.known, same)


def is_off(call: ast.Call) -> bool:
    """Whether `call` makes a scaler or region that does nothing: `enabled=False`."""
    return any(k.arg == "enabled" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords)


def _trains(context: Context, call: ast.Call) -> bool:
    """Whether `call` stands beside a backward pass, outside the models."""
    scopes = {context.facts.scope(b) for b in context.facts.backwards}
    return not context.in_model(call) and context.facts.scope(call) in scopes


def _of_scalers(context: Context, scalers: list[ast.Call]) -> Precision:
    """No region is in sight: the scaler is needed in any case, and only float16 has one."""
    return _switched(context, '"fp16"', _condition(context, scalers[0], scalers), known=True)


def _of_region(context: Context, call: ast.Call, scalers: list[ast.Call]) -> Precision:
    dtype = next(_dtypes(call), None)
    try:
        kind, known = _kind(context, call, dtype), True
    except NotAtHome:
        kind, known = _likely(context, dtype), False
    try:
        condition = _condition(context, call, scalers)
    except NotAtHome:
        return Precision(kind, known=False)
    if dtype is not None and condition is not None and '"no"' in kind and _excludes_float32(condition, dtype):
        condition = None
    precision = _switched(context, kind, condition, known)
    if known and not precision.known and _enabled(context, call) is None:
        return Precision(kind, '"no"' in kind)  # the choice of the region stays in the text
    return precision


def _switched(context: Context, kind: str, condition: ast.expr | None, known: bool) -> Precision:
    if condition is None:
        return Precision(kind, '"no"' in kind, known)
    try:
        test = at_home(context, condition)
    except NotAtHome:
        return Precision(kind, known=False)
    if kind == BY_DEVICE and test == GPU:
        kind = '"fp16"'
    if test in {"True", "False"}:
        return Precision(kind if test == "True" else '"no"', known=known)
    kind = f"({kind})" if " if " in kind else kind
    return Precision(f'{kind} if {test} else "no"', True, known)


def _kind(context: Context, call: ast.Call, dtype: ast.expr | None) -> str:
    if dtype is None or (isinstance(dtype, ast.Constant) and dtype.value is None):
        return BY_DEVICE if _device_type(call) is None and _names_device(context, call) else '"bf16"' if _device_type(call) == "cpu" else '"fp16"'
    return precision_name(context, dtype)


def _names_device(context: Context, call: ast.Call) -> bool:
    """Whether `torch.autocast(device.type)` leaves it to the device where the script runs which type is the default."""
    given = next((k.value for k in call.keywords if k.arg == "device_type"), call.args[0] if call.args else None)
    return given is not None and context.facts.external.get(call) in {"torch.autocast", "torch.amp.autocast"}


def _likely(context: Context, dtype: ast.expr | None) -> str:
    names = known_names(context, dtype) if dtype is not None else set()
    return '"bf16"' if "bf16" in names and "fp16" not in names else '"fp16"'


# -- when it is on ---------------------------------------------------------------------------------
def _condition(context: Context, call: ast.Call, scalers: list[ast.Call]) -> ast.expr | None:
    """When the scaler or region is in effect; None for always.

    Raises:
        NotAtHome: it asks a scaler something else than whether there is one.
    """
    found = _enabled(context, call) or _chosen(context, call) or _branch(context, call)
    return None if found is None else _without_scaler(context, found, scalers)


def _enabled(context: Context, call: ast.Call) -> ast.expr | None:
    given = [k.value for k in call.keywords if k.arg == "enabled"]
    if context.facts.external.get(call) in ENABLED_FIRST and call.args:
        given.append(call.args[0])
    return given[0] if given and not isinstance(given[0], ast.Constant) else None


def _chosen(context: Context, call: ast.Call) -> ast.expr | None:
    """`autocast() if amp else nullcontext()`, either way round."""
    above = context.facts.parents[call]
    if isinstance(above, ast.IfExp):
        return above.test if above.body is call else _not(above.test)
    return None


def _branch(context: Context, call: ast.Call) -> ast.expr | None:
    """`if amp: context = autocast()`; `if amp: with autocast(): ...` with an `else` that goes without."""
    statement = context.facts.statement(call)
    block = context.facts.parents[statement]
    if not isinstance(block, ast.If) or "__name__" in ast.unparse(block.test):
        return None
    other = block.orelse if statement in block.body else block.body
    if any(isinstance(n, ast.Call) and context.facts.external.get(n) == context.facts.external.get(call) for s in other for n in ast.walk(s)):
        return None
    if not other and not (isinstance(statement, ast.Assign) and len(block.body) == 1):
        return None
    return block.test if statement in block.body else _not(block.test)


def _without_scaler(context: Context, test: ast.expr, scalers: list[ast.Call]) -> ast.expr | None:
    """`scaler is not None` as what decides whether there is a scaler."""
    if not any(is_scaler(context, context.facts.of(n)) for n in ast.walk(test) if isinstance(n, ast.expr)):
        return test
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _not(_without_scaler(context, test.operand, scalers))
    if isinstance(test, ast.Compare) and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None:
        there = _condition(context, scalers[0], scalers)
        return _not(there) if isinstance(test.ops[0], ast.Is | ast.Eq) else there
    if isinstance(test, ast.Name | ast.Attribute) or (isinstance(test, ast.Call) and ast.unparse(test.func).endswith(".is_enabled")):
        return _condition(context, scalers[0], scalers)
    raise NotAtHome


def _not(test: ast.expr | None) -> ast.expr:
    if test is None:
        return ast.Constant(False)
    return ast.UnaryOp(ast.Not(), test)


def _excludes_float32(condition: ast.expr, dtype: ast.expr) -> bool:
    """`dtype != torch.float32`, which the name of the type says already."""
    is_unequal = isinstance(condition, ast.Compare) and isinstance(condition.ops[0], ast.NotEq | ast.IsNot)
    return is_unequal and {ast.unparse(condition.left), ast.unparse(condition.comparators[0])} == {ast.unparse(dtype), "torch.float32"}


def _dtypes(call: ast.Call) -> Iterator[ast.expr]:
    yield from (k.value for k in call.keywords if k.arg == "dtype")
    yield from call.args[1:2]


def _device_type(call: ast.Call) -> object:
    nodes = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device_type")]
    return nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None
