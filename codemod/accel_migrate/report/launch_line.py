"""How the migrated program is started."""

from __future__ import annotations

import ast
import os
import shlex
from pathlib import Path

from accel_migrate.project import Project


def launch_line(project: Project, target: str, script: Path) -> str:
    """The command that trains on two processes; as a module, from the folder of its package, where the script imports relatively.

    A notebook is started from its cells.
    """
    if script.suffix == ".ipynb":
        return f"restart the kernel and run the cells of {script}; num_processes says on how many processes"
    relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(project.entry.tree))
    program = "accel" if target == "accel_runtime" else "accelerate"
    if not relative:
        return f"{program} launch --num_processes 2 {shlex.quote(os.fspath(script))} ARGS"
    folder = Path(*script.parts[: -len(project.entry.module.split("."))])
    there = "" if folder == Path() else f"cd {shlex.quote(os.fspath(folder))} && "
    return f"{there}{program} launch --num_processes 2 -m {project.entry.module} ARGS"
