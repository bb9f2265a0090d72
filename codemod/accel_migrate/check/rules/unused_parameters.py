"""A head whose output never enters the loss: its parameters get no gradient, and DistributedDataParallel waits for them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.classes import find_method
from accel_migrate.facts.values import Instance, Role
from accel_migrate.quoting import quote

ID = "unused-parameters"
TITLE = "An output of the model, and the head that makes it, is not used in training"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    if program.is_on("find_unused_parameters") or not program.wraps:
        return
    for _, node in program.facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        call, target = node.value, node.targets[0]
        if (
            not isinstance(call, ast.Call)
            or not isinstance(target, ast.Tuple)
            or not program.is_prepared_model(call.func)
            or program.is_without_gradients(node)
        ):
            continue
        loop = program.training_loop(node)
        heads = _heads(program, call.func) if loop is not None else []
        for index, element in enumerate(target.elts):
            if (
                len(heads) == len(target.elts)
                and heads[index]
                and heads.count(heads[index]) == 1
                and _is_unread(program, element)
            ):
                yield Alarm(
                    element,
                    f"the output of `{heads[index]}` is not used: its parameters get no gradient, and on several processes the second step stops with an error about it",
                    f"leave the head out or freeze it before prepare, use `{quote(element)}` in the loss, or pass DistributedDataParallelKwargs(find_unused_parameters=True)",
                )


def _heads(program: Program, model: ast.expr) -> list[str]:
    """For each element of the tuple that `forward` returns, the submodule that makes it alone."""
    for value in program.facts.of(model):
        forward = (
            find_method(program.facts, value.cls.node, "forward")
            if isinstance(value, Instance) and program.facts.role(value) is Role.MODEL
            else None
        )
        returns = [n.value for n in ast.walk(forward) if isinstance(n, ast.Return)] if forward is not None else []
        if len(returns) == 1 and isinstance(returns[0], ast.Tuple):
            return [_head(program, element) for element in returns[0].elts]
    return []


def _head(program: Program, element: ast.expr) -> str:
    while (
        isinstance(element, ast.Call)
        and isinstance(element.func, ast.Attribute)
        and not ast.unparse(element.func).startswith("self.")
    ):
        element = element.func.value
    return (
        ast.unparse(element.func)
        if isinstance(element, ast.Call) and ast.unparse(element.func).startswith("self.")
        else ""
    )


def _is_unread(program: Program, element: ast.expr) -> bool:
    """Whether nothing in the function reads the variable."""
    if not isinstance(element, ast.Name):
        return False
    function = program.facts.function(element)
    return not any(
        isinstance(n, ast.Name) and n.id == element.id and isinstance(n.ctx, ast.Load) for n in ast.walk(function)
    )
