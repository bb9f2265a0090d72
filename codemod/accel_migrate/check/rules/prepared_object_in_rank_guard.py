"""A prepared model that is trained or called, or a prepared loader that is read, by some processes only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.call_sites import argument
from accel_migrate.check.guarded import guarded
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.scopes import FunctionNode
from accel_migrate.quoting import quote

ID = "prepared-object-in-rank-guard"
TITLE = "A prepared model or loader is used by some processes only"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    forwards = {c for _, c in program.facts.nodes(ast.Call) if program.is_prepared_model(c.func)}  # type: ignore[attr-defined]
    backwards = set(program.calls_of("backward"))
    loops = {
        node for node in program.facts.loops if isinstance(node, ast.For) and program.is_prepared(_iterated(node.iter))
    }

    def holds(node: ast.AST, call: ast.Call, function: FunctionNode) -> bool:
        """Whether the model that is called is a prepared one where it is the argument of this very call."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or program.facts.function(node) is not function:
            return True
        given = argument(program, call, function, node.func.id)
        return given is None or program.is_prepared_model(given)

    for found in guarded(program, forwards | backwards | loops, (ast.Call, ast.For), holds):
        silent = found.target in forwards and (program.is_without_gradients(found.target) or program.is_without_gradients(found.place))
        if silent and program.library == "accel_runtime":
            continue
        target = found.target.iter if isinstance(found.target, ast.For) else found.target
        shown = (
            quote(target)
            if found.is_direct
            else f"{quote(found.place)}` comes to `{quote(target)}` ({program.where(found.target)}), which"
        )
        yield Alarm(
            target if found.is_direct else found.place,
            f"`{shown}{'`' if found.is_direct else ''} is reached by some processes only (`{found.guard.text}`): {_what(found.target, forwards, loops, silent)}",
            "let all processes do it, and gather; or use `accelerator.unwrap_model(model)` and a loader that was not prepared under the condition",
            severity=Severity.WARNING if silent else None,
        )


def _iterated(node: ast.expr) -> ast.expr:
    """The loader in `enumerate(tqdm(loader))`."""
    while isinstance(node, ast.Call) and node.args:
        node = node.args[0]
    return node


def _what(target: ast.AST, forwards: set[ast.Call], loops: set[ast.For], silent: bool) -> str:
    if target in loops:
        return "it reads its own share of the samples, and waits for the others to bring the random streams in step"
    if silent:
        return "a model with buffers, or whose parameters are sharded, waits for the others in its forward pass"
    if target in forwards:
        return "its backward pass waits for the gradients of the others"
    return "it waits for the gradients of the others"
