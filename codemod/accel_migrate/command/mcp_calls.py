"""Commands as a server for assistants calls them: each in a process of its own, its JSON cut to a size that can be read."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from accel_migrate.errors import UserError

MOST_ITEMS, MOST_CHARACTERS = 100, 40_000
_CODE = "import sys; from accel_migrate.command.umbrella import main; sys.exit(main(sys.argv[1:]))"


async def accel(arguments: Sequence[str], folder: str) -> dict[str, Any]:
    """What `accel ARGUMENTS` prints as JSON in `folder`, with the command and its exit status; ended when the call is cancelled.

    Raises:
        UserError: it could not do what was asked, and says why.
    """
    status, out, errors = await _ended([sys.executable, "-c", _CODE, *arguments], folder)
    try:
        document = json.loads(out)
    except json.JSONDecodeError:
        raise UserError(errors.strip()[-2000:] or f"accel {arguments[0]} ended with status {status}") from None
    if status == 2 and document.get("errors") and not document.get("programs"):
        raise UserError("; ".join(document["errors"])[:2000])
    return bounded({"command": shlex.join(["accel", *arguments]), "exit_status": status, **document})


async def _ended(command: Sequence[str], folder: str) -> tuple[int, str, str]:
    import anyio

    if not os.path.isdir(folder):
        raise UserError(f"{folder}: there is no such folder")
    outputs: dict[str, bytes] = {}
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, cwd=folder) as process:

        async def read(name: str, stream: Any) -> None:
            outputs[name] = b"".join([part async for part in stream])

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(read, "out", process.stdout)
                group.start_soon(read, "errors", process.stderr)
            status = await process.wait()
        except BaseException:
            process.terminate()  # the command clears away what it has started
            with anyio.CancelScope(shield=True):
                await process.wait()
            raise
    return status, *(outputs.get(name, b"").decode(errors="replace") for name in ("out", "errors"))


def bounded(document: dict[str, Any]) -> dict[str, Any]:
    """`document` with long lists and texts cut; what was cut is said under `shortened`."""
    notes: list[str] = []
    short = {key: _cut(value, key, notes) for key, value in document.items()}
    return {**short, "shortened": notes} if notes else short


def _cut(value: Any, path: str, notes: list[str]) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item, f"{path}.{key}", notes) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > MOST_ITEMS:
            notes.append(f"{path}: {MOST_ITEMS} of {len(value)}")
        return [_cut(item, f"{path}[{number}]", notes) for number, item in enumerate(value[:MOST_ITEMS])]
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        notes.append(f"{path}: {MOST_CHARACTERS} of {len(value)} characters")
        return value[:MOST_CHARACTERS]
    return value
