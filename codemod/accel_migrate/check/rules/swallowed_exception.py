"""A step that one process gives up alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity

ID = "swallowed-exception"
TITLE = "An exception in the training step is swallowed by the process that met it"
SEVERITY = Severity.ERROR

_ENDING = {"sys.exit", "exit", "quit", "os._exit"}


def check(program: Program) -> Iterator[Alarm]:
    for _, node in program.facts.nodes(ast.Try):
        assert isinstance(node, ast.Try)
        loop = program.training_loop(node)
        if loop is None:
            continue
        trains = any(program.reach.trains(s) for s in node.body)
        for handler in node.handlers:
            if _is_end_of_data(handler):
                continue
            if (trains and not _ends(program, handler)) or (_goes_on(program, handler, loop) and (trains or _runs_model(program, node))):
                yield Alarm(
                    handler,
                    "the process that meets the exception goes on with its next step, while the others wait for it in the backward pass of this one: they stay one step apart until they are stopped",
                    "let the exception end the run; for out-of-memory errors use find_executable_batch_size, which starts anew on all processes",
                )


def _goes_on(program: Program, handler: ast.ExceptHandler, loop: ast.AST) -> bool:
    """Whether some way through the handler leaves the rest of the step out."""
    for node in ast.walk(handler):
        inner = next((a for a in program.facts.ancestors(node) if isinstance(a, ast.For | ast.While)), None)
        if isinstance(node, ast.Continue) and inner is loop:
            return True
    return False


def _runs_model(program: Program, node: ast.Try) -> bool:
    """Whether a prepared model is run in the `try`, calls included."""
    return any(program.is_prepared_model(c.func) for s in node.body for c in program.reach.calls(s))


def _ends(program: Program, handler: ast.ExceptHandler) -> bool:
    """Whether the handler raises again, or ends the loop for good."""
    return any(
        isinstance(n, ast.Raise | ast.Return | ast.Break)
        or (isinstance(n, ast.Call) and program.facts.external.get(n) in _ENDING)
        for n in ast.walk(handler)
    )


def _is_end_of_data(handler: ast.ExceptHandler) -> bool:
    names = {
        n.id if isinstance(n, ast.Name) else n.attr
        for n in ast.walk(handler.type or ast.Pass())
        if isinstance(n, ast.Name | ast.Attribute)
    }
    return bool(names & {"StopIteration", "KeyboardInterrupt", "ImportError", "ModuleNotFoundError"})
