"""`CUDA_VISIBLE_DEVICES` set by the script: the launcher has shared out the GPUs by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity

ID = "visible-devices-in-script"
TITLE = "The script sets CUDA_VISIBLE_DEVICES"
SEVERITY = Severity.WARNING

_VARIABLES = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"}


def check(program: Program) -> Iterator[Alarm]:
    for _, node in program.facts.nodes(ast.Assign, ast.Call):
        if isinstance(node, ast.Assign):
            places = [
                t.slice
                for t in node.targets
                if isinstance(t, ast.Subscript) and ast.unparse(t.value).endswith("environ")
            ]
        else:
            setting = program.method(node) in {"setdefault", "putenv"} and "environ" in ast.unparse(node.func)  # type: ignore[arg-type, attr-defined]
            places = node.args[:1] if setting else []  # type: ignore[attr-defined]
        if any(isinstance(p, ast.Constant) and p.value in _VARIABLES for p in places) and not program.is_under(
            node, "num_processes"
        ):
            yield Alarm(
                node,
                "every process sees only these GPUs: the second one has none of its own, and stops with an invalid device ordinal or shares the first",
                "leave it to the launcher: accelerate launch --gpu_ids 0,1, or the variable in front of the command",
            )
