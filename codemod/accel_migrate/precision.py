"""Which mixed precision a script trains in, from its scalers and autocast regions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accel_migrate.at_home import NotAtHome, at_home
from accel_migrate.context import Context
from accel_migrate.facts.values import Ref

DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.half": "fp16"}
ENABLED_FIRST = {"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"}


@dataclass(frozen=True)
class Precision:
    """The argument `mixed_precision`, or None where it cannot be written where the accelerator is made.

    `optional` tells whether it may turn out to be "no".
    """

    text: str | None
    optional: bool = False


def mixed_precision(context: Context, scalers: list[ast.Call], autocasts: list[ast.Call]) -> Precision:
    """The precision of `scalers` and `autocasts`, none of which is switched off for good."""
    condition = next((c for call in [*scalers, *autocasts] if (c := condition_of(context, call)) is not None), None)
    try:
        kind = _kind(context, scalers, autocasts)
        if condition is None:
            return Precision(kind)
        test = at_home(context, condition)
        if test in {"True", "False"}:
            return Precision(kind if test == "True" else '"no"')
        kind = f"({kind})" if " if " in kind else kind
        return Precision(f'{kind} if {test} else "no"', optional=True)
    except NotAtHome:
        return Precision(None)


def is_off(call: ast.Call) -> bool:
    """Whether `call` makes a scaler or region that does nothing: `enabled=False`."""
    return any(k.arg == "enabled" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords)


def condition_of(context: Context, call: ast.Call) -> ast.expr | None:
    """When the scaler or region is in effect; None for always."""
    given = [k.value for k in call.keywords if k.arg == "enabled"]
    if context.facts.external.get(call) in ENABLED_FIRST and call.args:
        given.append(call.args[0])
    if given and not isinstance(given[0], ast.Constant):
        return given[0]
    above = context.facts.parents[call]
    if isinstance(above, ast.IfExp) and above.body is call:
        return above.test
    block = context.facts.parents[context.facts.statement(call)]
    is_assigned = isinstance(context.facts.statement(call), ast.Assign)
    if is_assigned and isinstance(block, ast.If) and not block.orelse and len(block.body) == 1 and "__name__" not in ast.unparse(block.test):
        return block.test
    return None


def _kind(context: Context, scalers: list[ast.Call], autocasts: list[ast.Call]) -> str:
    """An expression for the type, "fp16" or "bf16"."""
    for node in _dtypes(autocasts):
        names = {DTYPES[v.name] for v in context.facts.of(node) if isinstance(v, Ref) and v.name in DTYPES}
        if len(names) == 1:
            return f'"{names.pop()}"'
        return _chosen(context, node)
    if not scalers and any(_device_type(c) == "cpu" for c in autocasts):
        return '"bf16"'
    return '"fp16"'


def _chosen(context: Context, node: ast.expr) -> str:
    """A type that a condition chooses: `torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16`."""
    if isinstance(node, ast.Name):
        owner = context.facts.scope(node).owner(node.id)
        found = [] if owner is None else [n.value for n in ast.walk(owner.node) if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == node.id]
        if len(found) == 1:
            node = found[0]
    if not isinstance(node, ast.IfExp):
        raise NotAtHome
    first, second = (_named(context, n) for n in (node.body, node.orelse))
    return f'"{first}" if {at_home(context, node.test)} else "{second}"'


def _named(context: Context, node: ast.expr) -> str:
    found = {DTYPES[v.name] for v in context.facts.of(node) if isinstance(v, Ref) and v.name in DTYPES}
    if len(found) != 1:
        raise NotAtHome
    return found.pop()


def _dtypes(autocasts: list[ast.Call]) -> Iterator[ast.expr]:
    for call in autocasts:
        yield from (k.value for k in call.keywords if k.arg == "dtype")
        yield from call.args[1:2]


def _device_type(call: ast.Call) -> object:
    nodes = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "device_type")]
    return nodes[0].value if nodes and isinstance(nodes[0], ast.Constant) else None
