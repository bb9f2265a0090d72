"""What `prepare` hands back as it is: models without a parameter to train, and tables of models."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_migrate.check.program import Program

_TRAINING = {"parameters", "named_parameters", "modules", "named_modules", "train", "add_adapter", "load_adapter", "set_adapter", "set_attn_processor", "get_parameter"}  # fmt: skip
"""Methods with which a script reaches for what it trains."""
_ADDING = ("adapter", "lora", "peft", "inject", "unfreeze", "trainable")
"""Parts of names of functions that give a frozen model something to train."""


def frozen_models(program: Program) -> set[ast.AST]:
    """Where the models were made that are frozen by `model.requires_grad_(False)`, and of which nothing else is trained."""
    frozen: set[ast.AST] = set()
    trained: set[ast.AST] = set()
    for call in program.facts.methods:
        if not isinstance(call.func, ast.Attribute):
            continue
        off = call.func.attr == "requires_grad_" and _is_off(call)
        if off:
            frozen |= set() if _is_part(program, call.func.value) else program.sites(call.func.value)
        elif call.func.attr in _TRAINING or (call.func.attr == "requires_grad_" and not off):
            trained |= _sites_below(program, call.func.value)
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if any(part in program.method(call).lower() for part in _ADDING):
            trained |= {s for a in (*call.args, *(k.value for k in call.keywords)) for s in program.sites(a)}
    return (frozen - trained) | {call for call, name in program.facts.external.items() if name == "ema_pytorch.EMA" and _has_average_only(call)}


def _has_average_only(call: ast.Call) -> bool:
    """Whether an average that is kept apart holds no copy of the trained model."""
    return any(k.arg == "include_online_model" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords)


def _may_be_either(program: Program, node: ast.AST) -> bool:
    """Whether a test around `node` asks what the object is: it may be a model as well."""
    tests = (a.test for a in program.facts.ancestors(node) if isinstance(a, ast.If))
    return any("isinstance" in ast.unparse(test) for test in tests)


def tables_of_models(program: Program) -> set[ast.AST]:
    """Where objects of unknown making were made whose keys are looped over, and which are asked by key: `[model[key].train() for key in model]`."""
    looped: set[ast.AST] = set()
    for _, node in program.facts.nodes(ast.For, ast.comprehension):
        read = node.iter  # type: ignore[attr-defined]
        if isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute) and read.func.attr in {"keys", "items"}:
            read = read.func.value
        if isinstance(read, ast.Name | ast.Attribute) and not _may_be_either(program, node):
            looped |= {s for s in program.sites(read) if not program.facts.external.get(s, "").startswith("torch.nn.")}  # type: ignore[call-overload]
    asked = {s for _, node in program.facts.nodes(ast.Subscript) for s in program.sites(node.value)} if looped else set()  # type: ignore[attr-defined]
    return looped & asked


def _is_part(program: Program, node: ast.expr) -> bool:
    """Whether `node` is a part of an object that is not looked into: `model.encoder` is then known as `model`."""
    return isinstance(node, ast.Attribute) and bool(program.sites(node) & program.sites(node.value))


def _is_off(call: ast.Call) -> bool:
    values = [*call.args, *(k.value for k in call.keywords)]
    return len(values) == 1 and isinstance(values[0], ast.Constant) and values[0].value is False


def _sites_below(program: Program, node: ast.expr) -> set[ast.AST]:
    """Where `node`, and what it is an attribute or element of, were made: `model.head.train()` trains a part of `model`."""
    found: set[ast.AST] = set()
    current: ast.AST = node
    while True:
        found |= program.sites(current)
        if not isinstance(current, ast.Attribute | ast.Subscript):
            return found
        current = current.value
