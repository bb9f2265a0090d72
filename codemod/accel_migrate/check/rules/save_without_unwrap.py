"""A checkpoint of the wrapped model: its keys carry `module.`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.quoting import quote

ID = "save-without-unwrap"
TITLE = "The wrapped model is saved: its keys begin with module. on several processes"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})

_SAVING = {"torch.save", "safetensors.torch.save_file", "safetensors.torch.save_model"}


def check(program: Program) -> Iterator[Alarm]:
    if not program.wraps:
        return
    for call in _saving(program):
        for node in program.flow.origins(*call.args[:1]):
            if (
                isinstance(node, ast.Call)
                and program.method(node) == "state_dict"
                and isinstance(node.func, ast.Attribute)
                and program.is_prepared_model(node.func.value)
            ):
                yield _alarm(program, node, node.func.value)
    for call, (_, method) in program.facts.methods.items():
        if (
            method in {"save_pretrained", "push_to_hub"}
            and isinstance(call.func, ast.Attribute)
            and program.is_prepared_model(call.func.value)
        ):
            yield _alarm(program, call, call.func.value)


def _saving(program: Program) -> Iterator[ast.Call]:
    yield from (call for call, name in program.facts.external.items() if name in _SAVING)
    yield from program.calls_of("save")


def _alarm(program: Program, node: ast.Call, model: ast.expr) -> Alarm:
    own = _name(program, node)
    edit = ReplaceExpression(
        source=program.source(model),
        rule=ID,
        node=model,
        template=f"{own}.unwrap_model({{model}})",
        parts={"model": model},
    )
    what = (
        "there is no such method on the wrapper"
        if program.method(node) != "state_dict"
        else "every key begins with `module.`, and a bare model (with strict=False: without a word) loads nothing of it"
    )
    return Alarm(
        node,
        f"`{quote(node)}` is that of the wrapper on several processes: {what}",
        f"accelerator.unwrap_model({quote(model)}).{program.method(node)}(...)",
        Fix((edit,)) if own is not None and not isinstance(model, ast.Call) else None,
    )
