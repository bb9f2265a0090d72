"""The tools that `accel mcp` offers: the commands, with what an assistant needs to know of them."""

from __future__ import annotations

import os
from typing import Any

from accel_migrate.command.mcp_calls import accel


async def scan(path: str, folder: str = ".") -> dict[str, Any]:
    """What a PyTorch training script or folder is: which objects were recognised and why, which loops train, whether it can be migrated.

    Reads only. `path`: the script that is run, a notebook, or a folder; `folder`: where it is run.
    """
    found = await accel(["migrate", path, "--format", "json"], folder)
    programs = [
        {key: program[key] for key in ("path", "status", "reason", "explanation", "notes")}
        | {"findings": len(program["findings"])}
        for program in found["programs"]
    ]
    return {**_head(found), "programs": programs}


async def plan(
    path: str,
    folder: str = ".",
    target: str = "",
    batch: int = 0,
    gpus: int = 0,
    model: str = "",
    params: str = "",
    memory: float = 80.0,
) -> dict[str, Any]:
    """What the migration of a script would change: every edit with its line and reason, what is left by hand, how to launch it. Writes nothing.

    With `batch` (samples of an optimizer step, of all processes together), `gpus`, and `model` (FILE.py:CLASS, a folder, a Transformers type) or `params`
    ("7B"), `sharing` says how to share out the batch, what each strategy needs on devices of `memory` GiB, and which to take.
    """
    found = await accel(["migrate", path, "--format", "json", *_target(target)], folder)
    for program in found["programs"]:
        program.pop("explanation")
        for file in program["files"]:
            file.pop("diff")
    if batch and gpus and (model or params):
        what = [model] if model else ["--params", params]
        found["sharing"] = await accel(
            ["plan", *what, "--batch", str(batch), "--gpus", str(gpus), "--memory", str(memory), "--json"], folder
        )
    return found


async def migrate(
    path: str, folder: str = ".", output: str = "", write: bool = False, target: str = ""
) -> dict[str, Any]:
    """Migrate a single-GPU (or DDP, DataParallel) script to several processes: returns the diff and what is left by hand.

    Nothing is written unless told: `output` names a folder for the result, `write` changes the files in place. `target`: accel_runtime (if nothing else is set) or accelerate.
    """
    where = [*(["--output", output] if output else []), *(["--write"] if write else [])]
    found = await accel(["migrate", path, "--format", "json", *_target(target), *where], folder)
    for program in found["programs"]:
        program.pop("explanation")
        for file in program["files"]:
            file["edits"] = len(file["edits"])
    return found


async def check(path: str, folder: str = ".", fix: bool = False) -> dict[str, Any]:
    """What an accelerated script (accel_runtime or Hugging Face Accelerate) does wrong on several processes: hangs, wrong numbers, lost files.

    Runs nothing. `fix` mends in place what can be mended safely; otherwise nothing is written.
    """
    return await accel(["check", path, "--format", "json", *(["--fix"] if fix else [])], folder)


async def verify(
    original: str,
    migrated: str = "",
    folder: str = ".",
    arguments: list[str] | None = None,
    processes: str = "1,2",
    steps: int = 20,
    to_end: bool = False,
) -> dict[str, Any]:
    """Run the original on one process and the migrated script on several, in scratch copies, and compare losses, weights, samples, lines and files.

    Runs the user's code. `migrated` empty: against what the migration makes of `original`. `arguments`: the script's own, best such that a run takes
    seconds and reaches evaluation and saving. Verdict: same, expected differences (dropout, augmentation), or different with reasons.
    """
    length = ["--to-end"] if to_end else ["--steps", str(steps)]
    scripts = [original, *([migrated] if migrated else [])]
    found = await accel(
        ["verify", *scripts, "--format", "json", "--processes", processes, *length, "--", *(arguments or [])], folder
    )
    found["losses"] = {
        name: values[:3] + values[-1:] if len(values) > 4 else values for name, values in found["losses"].items()
    }
    for comparison in found["comparisons"]:
        comparison.pop("apart")
    return found


def _target(target: str) -> list[str]:
    return ["--target", target] if target else []


def _head(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in ("command", "exit_status", "errors", "summary", "shortened") if key in found}


TOOLS = {scan: True, plan: True, migrate: False, check: False, verify: False}
"""Tool -> whether it changes nothing and runs nothing of the user's."""


def instructions() -> str:
    """What the server says of itself."""
    return (
        "To make PyTorch training run on several GPUs or processes: scan, plan, migrate, check, verify, in this order, then report what was proved. "
        "Do not rewrite by hand what migrate can rewrite. The resource skill://single-gpu-to-accelerate/SKILL.md says the rest: decisions to put to the "
        f"user, traps, the form of the report. Paths are relative to `folder`, by default {os.getcwd()}."
    )
