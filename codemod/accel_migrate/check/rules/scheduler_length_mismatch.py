"""A prepared scheduler ticks once for each process, so its length is counted in batches of the loader before `prepare`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "scheduler-length-mismatch"
TITLE = "The length of a prepared scheduler is counted on the prepared loader"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    if program.is_on("split_batches") or _is_false(program.setting("step_scheduler_with_optimizer")):
        return  # then a scheduler ticks once in each step
    for preparation in program.preparations:
        for value in program.facts.of(preparation.argument):
            if isinstance(value, Made) and value.role is Role.SCHEDULER and isinstance(value.site, ast.Call):
                length = _length(program, value.site)
                if length is not None:
                    yield Alarm(
                        length,
                        f"`{quote(length)}` counts this process's batches, but the prepared scheduler ticks once for each process and step: on N processes it is through after 1/N of the training",
                        "take the length before the loader is prepared, or multiply by accelerator.num_processes, or leave the scheduler out of prepare",
                    )


def _is_false(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def _length(program: Program, maker: ast.Call) -> ast.expr | None:
    """`len(prepared loader)` among what the scheduler's length is made of, unless the number of processes is, too."""
    arguments = [a for a in (*maker.args[1:], *(k.value for k in maker.keywords if k.arg != "optimizer"))]
    function = program.facts.function(maker)
    origins = [
        n
        for n in program.flow.origins(*arguments)
        if program.facts.function(n) is not function or getattr(n, "lineno", 0) <= (maker.end_lineno or 0)
    ]
    if any(
        (isinstance(n, ast.Attribute) and n.attr == "num_processes")
        or (isinstance(n, ast.Name) and "world_size" in n.id)
        for n in origins
    ):
        return None
    for node in origins:
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "len"
            and node.args
            and is_prepared_loader(program, node.args[0])
        ):
            return node
    return None


def is_prepared_loader(program: Program, node: ast.expr) -> bool:
    """Whether `node` is surely a prepared loader, and not its data set."""
    marks = [v for v in program.facts.of(node) if isinstance(v, Prepared)]
    return bool(marks) and program.facts.has_role(node, Role.LOADER) and all(v.call.lineno < node.lineno for v in marks)
