"""Two forward passes before one backward pass, of a model with BatchNorm: the wrapper overwrites its statistics in between."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.quoting import quote

ID = "repeated-forward-with-buffers"
TITLE = "A model with BatchNorm is called twice before one backward pass"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    broadcast = program.setting("broadcast_buffers")
    if (broadcast is not None and ast.unparse(broadcast) == "False") or not program.wraps:
        return
    calls: dict[tuple[object, ...], list[ast.Call]] = defaultdict(list)
    for backward in program.calls_of("backward"):
        function = program.facts.function(backward)
        nodes = list(program.flow.origins(*backward.args[:1]))
        for call in (n for n in nodes if isinstance(n, ast.Call) and program.is_prepared_model(n.func)):
            if (
                program.facts.function(call) is function
                and call.lineno <= backward.lineno
                and _has_statistics(program, call.func)
            ):
                calls[backward, ast.unparse(call.func)].append(call)
    for (backward, model), found in calls.items():
        last = _since_last_backward(program, backward, found)  # type: ignore[arg-type]
        if len(last) > 1:
            yield Alarm(
                last[1],
                f"the second forward pass of `{model}` overwrites the statistics of its BatchNorm, which the first one's gradient needs (line {last[0].lineno}): RuntimeError about an in-place operation on several processes",
                f"one pass over both (`{quote(last[0].func)}(torch.cat([a, b]))`), or DistributedDataParallelKwargs(broadcast_buffers=False)",
            )


def _since_last_backward(program: Program, backward: ast.Call, calls: list[ast.Call]) -> list[ast.Call]:
    """Those of `calls` that run after the backward pass before, in the order of the text."""
    function = program.facts.function(backward)
    before = [
        c.lineno
        for c in program.calls_of("backward")
        if program.facts.function(c) is function and c.lineno < backward.lineno
    ]
    loop = program.training_loop(backward)
    return sorted(
        (c for c in dict.fromkeys(calls) if c.lineno > max(before, default=0) and program.training_loop(c) is loop),
        key=lambda c: c.lineno,
    )


def _has_statistics(program: Program, model: ast.expr) -> bool:
    for value in program.facts.of(model):
        if isinstance(value, Instance) and program.facts.role(value) is Role.MODEL and _makes_batchnorm(value.cls.node):
            return True
        if (
            isinstance(value, Made)
            and value.role is Role.MODEL
            and isinstance(value.site, ast.Call)
            and _makes_batchnorm(value.site)
        ):
            return True
    return False


def _makes_batchnorm(node: ast.AST) -> bool:
    return any(
        isinstance(n, ast.Attribute | ast.Name)
        and (n.attr if isinstance(n, ast.Attribute) else n.id).startswith("BatchNorm")
        for n in ast.walk(node)
    )
