"""A training step whose exceptions are swallowed can leave one process behind: a finding.

If a step fails on one process only and is skipped there, the others wait for its gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.side_effects import runs_models

ID = "swallowed-exception"
TITLE = "Find training steps whose exceptions are swallowed"
WHY = "a process that skips a step alone leaves the others waiting for its gradients"

HARMLESS = {"EOFError", "KeyboardInterrupt", "StopIteration", "ImportError", "ModuleNotFoundError", "FileNotFoundError", "KeyError", "AttributeError"}
EXITS = {"sys.exit", "exit", "quit", "os._exit"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for _, node in context.facts.nodes(ast.Try):
        assert isinstance(node, ast.Try)
        if not _in_loop(context, node) or not _steps(context, node):
            continue
        for handler in node.handlers:
            if _names(handler) <= HARMLESS and handler.type is not None:
                continue
            if not _always_leaves(handler.body):
                yield _finding(context, handler)


def _in_loop(context: Context, node: ast.Try) -> bool:
    return any(isinstance(a, ast.For | ast.While) for a in context.facts.ancestors(node))


def _steps(context: Context, node: ast.Try) -> bool:
    """Whether models run in the body: after the handler the loop goes on with the next batch."""
    return any(runs_models(context.facts, statement) for statement in node.body)


def _names(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return set()
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(t).rpartition(".")[2] for t in types}


def _always_leaves(body: list[ast.stmt]) -> bool:
    """Whether the process ends on every way through `body`."""
    for statement in body:
        if isinstance(statement, ast.Raise) or (isinstance(statement, ast.Expr) and _exits(statement.value)):
            return True
        if isinstance(statement, ast.If) and statement.orelse and _always_leaves(statement.body) and _always_leaves(statement.orelse):
            return True
        if isinstance(statement, ast.Continue | ast.Break | ast.Return):
            return False
        if isinstance(statement, ast.If) and any(isinstance(n, ast.Continue | ast.Break) for n in ast.walk(statement)):
            return False
    return False


def _exits(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) in EXITS


def _finding(context: Context, handler: ast.ExceptHandler) -> Finding:
    return Finding(
        source=context.source(handler), node=handler, rule=ID, severity=Severity.WARNING,
        message="a step that fails on one process only is skipped there, and the others wait for its gradients until the run is stopped",
        advice="let the exception end the run, or agree first: accelerator.set_trigger() in the handler, check_trigger() on all processes before the step",
    )  # fmt: skip
