"""The number of batches of the whole loader, taken for the steps of one process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Preparation, Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "length-before-prepare"
TITLE = "A number of steps is counted on the loader before prepare"
SEVERITY = Severity.WARNING


_ARITHMETIC = {"range", "len", "int", "float", "abs", "ceil", "floor", "min", "max", "round", "trunc"}
"""Functions whose result is counted from what they are given; what others make of it is not known."""


def check(program: Program) -> Iterator[Alarm]:
    if program.is_on("split_batches"):
        return  # the prepared loader has as many batches
    for preparation in program.preparations:
        if not program.facts.has_role(preparation.argument, Role.LOADER) or not _is_rebound(program, preparation):
            continue
        for length in _lengths(program, preparation):
            bound = next((b for b in _bounds(program, preparation) if length in set(_counted(program, b))), None)
            if bound is not None:
                yield Alarm(
                    length,
                    f"`{quote(length)}` counts the batches of all processes, but the loop that it bounds (line {bound.lineno}) runs over the prepared loader, which has 1/N of them: on N processes it is N times as long, or as short, as asked for",
                    "count after prepare; for the length of a scheduler that is prepared the number before it is right",
                )


def _is_rebound(program: Program, preparation: Preparation) -> bool:
    """Whether what `prepare` returns gets the name of the argument."""
    return isinstance(preparation.argument, ast.Name | ast.Attribute)


def _lengths(program: Program, preparation: Preparation) -> Iterator[ast.Call]:
    """`len(loader)` above the `prepare`, in its function."""
    function, text = program.facts.function(preparation.call), ast.unparse(preparation.argument)
    for node in ast.walk(function):
        counts = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1
        if counts and ast.unparse(node.args[0]) == text and node.lineno < preparation.call.lineno and program.facts.function(node) is function:
            yield node


def _bounds(program: Program, preparation: Preparation) -> Iterator[ast.expr]:
    """Tests and ranges below the `prepare` that end a loop which trains, and the totals of progress bars."""
    function = program.facts.function(preparation.call)
    for node in ast.walk(function):
        if getattr(node, "lineno", 0) <= preparation.call.lineno or program.facts.function(node) is not function:
            continue
        if (isinstance(node, ast.While) and program.reach.trains(node)) or (
            isinstance(node, ast.If)
            and program.training_loop(node) is not None
            and any(isinstance(n, ast.Break) for n in node.body)
        ):
            yield node.test
        elif (
            isinstance(node, ast.For)
            and isinstance(node.iter, ast.Call)
            and ast.unparse(node.iter.func) == "range"
            and program.reach.trains(node)
        ):
            yield node.iter


def _counted(program: Program, bound: ast.expr) -> Iterator[ast.AST]:
    """What `bound` is made of; nothing where the number of processes is taken into account, or where it is counted again below."""

    def stop(node: ast.AST) -> bool:
        return (isinstance(node, ast.Attribute) and node.attr == "num_processes") or (isinstance(node, ast.Call) and program.method(node) not in _ARITHMETIC)

    nodes = list(program.flow.origins(bound, stop=stop))
    again = [
        n
        for n in nodes
        if isinstance(n, ast.Call)
        and program.method(n) == "len"
        and any(other is not n and ast.unparse(other) == ast.unparse(n) for other in nodes)
    ]
    if not again and not any(isinstance(n, ast.Attribute) and n.attr == "num_processes" for n in nodes):
        yield from nodes
