"""Reentrant checkpointing runs parts of the model again in the backward pass, which a search for unused parameters does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity

ID = "reentrant-checkpoint-with-ddp"
TITLE = "Reentrant activation checkpointing with find_unused_parameters=True"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    setting = program.setting("find_unused_parameters")
    if setting is None or not program.is_on("find_unused_parameters"):
        return
    checkpoints = [c for c, name in program.facts.external.items() if name == "torch.utils.checkpoint.checkpoint"]
    checkpoints += [
        c
        for _, c in program.facts.nodes(ast.Call)
        if isinstance(c, ast.Call) and program.method(c) == "gradient_checkpointing_enable"
    ]
    reentrant = [
        c
        for c in checkpoints
        if not any("use_reentrant" in ast.unparse(k) and "False" in ast.unparse(k) for k in c.keywords)
    ]
    if reentrant:
        yield Alarm(
            setting,
            f"with the checkpointing of line {reentrant[0].lineno} a parameter is marked ready twice: RuntimeError in the first backward pass on several processes",
            "pass use_reentrant=False to the checkpointing, or leave find_unused_parameters out",
        )
