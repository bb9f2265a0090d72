"""A script to run, and what a run of it left behind."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PYTHON_PATH = os.pathsep.join(str(REPOSITORY / part) for part in ("codemod", "runtime", "tests"))
_UNINTERESTING = shutil.ignore_patterns("__pycache__", ".git")


@dataclass(frozen=True)
class Job:
    """A script of a folder with its arguments; `script` is relative to `folder`, which is also where it runs unless `cwd` says otherwise."""

    folder: Path
    script: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, hash=False)
    cwd: str = "."


@dataclass(frozen=True)
class Run:
    """What one run of a job did.

    `lines` holds the standard output of all processes, `errors` their error output (last, where it is known, that of the
    process which failed first), `written` the files it made or changed, relative to `folder`.
    """

    folder: Path
    exit_code: int
    lines: tuple[str, ...]
    errors: str
    written: tuple[str, ...]
    seconds: float
    timed_out: bool = False

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


def copy_to_scratch(folder: Path, scratch: Path) -> dict[str, tuple[int, int]]:
    """Copy `folder` to `scratch`, which must not exist; returns the state of the files in the copy."""
    shutil.copytree(folder, scratch, ignore=_UNINTERESTING)
    return file_states(scratch)


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of change in nanoseconds of each file below `folder`."""
    states: dict[str, tuple[int, int]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            stat = path.stat()
            states[path.relative_to(folder).as_posix()] = stat.st_size, stat.st_mtime_ns
    return states


def written_since(folder: Path, before: dict[str, tuple[int, int]]) -> tuple[str, ...]:
    return tuple(name for name, state in file_states(folder).items() if before.get(name) != state)
