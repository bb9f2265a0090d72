"""CUDA or an Accelerator is touched before `notebook_launcher` starts its processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "state-created-before-launcher"
TITLE = "An Accelerator or CUDA is used before notebook_launcher starts the processes"
SEVERITY = Severity.ERROR

_TOUCHING = {
    "torch.cuda.set_device",
    "torch.cuda.current_device",
    "torch.cuda.get_device_name",
    "torch.cuda.empty_cache",
    "torch.cuda.init",
    "torch.cuda.synchronize",
}


def check(program: Program) -> Iterator[Alarm]:
    launches = [c for c in program.functions_of("notebook_launcher") if c.args]
    for launch in launches:
        module = program.facts.function(launch)
        handed = {f for v in program.facts.of(launch.args[0]) if (f := getattr(v, "node", None)) is not None}
        for call in (*program.makers, *_touching(program)):
            above = (
                program.source(call) is program.source(launch)
                and call.lineno < launch.lineno
                and program.facts.function(call) is module
            )
            if above and not any(program.facts.inside(call, f) for f in handed):
                yield Alarm(
                    call,
                    f"`{quote(call)}` runs in the process that starts the others (line {launch.lineno}): they cannot use CUDA after a fork, and notebook_launcher refuses",
                    "make the Accelerator, and everything on a device, inside of the launched function",
                )


def _touching(program: Program) -> Iterator[ast.Call]:
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if program.facts.external.get(call) in _TOUCHING or (
            isinstance(call.func, ast.Attribute) and call.func.attr == "cuda" and not call.args
        ):
            yield call
