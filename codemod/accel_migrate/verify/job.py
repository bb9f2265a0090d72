"""A script to run in a scratch copy of its folder, and what a run of it left behind."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

_UNINTERESTING = shutil.ignore_patterns("__pycache__", ".git", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache")
_LARGE = 2**20
"""Bytes from which on a file is linked, not copied (see `hooks.written`, which unlinks it before a write)."""


@dataclass(frozen=True)
class Job:
    """A script with its arguments; `script` is relative to `folder`, which is also where it runs unless `cwd` says otherwise.

    `module` is the dotted name where it runs as `python -m`; `changed` holds other texts for files of the copy, by path;
    `distributed` gives it torchrun's environment on one process too; `starts_processes` says that it starts them itself.
    """

    folder: Path
    script: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, hash=False)
    cwd: str = "."
    module: str = ""
    changed: dict[str, str] = field(default_factory=dict, hash=False)
    distributed: bool = False
    starts_processes: bool = False


@dataclass(frozen=True)
class Run:
    """What one run of a job did.

    `lines` holds the standard output of all processes, `errors` their error output (last, where it is known, that of the
    process which failed first), `written` the files it made or changed, relative to `folder`, `wrote_temporary` those in
    its folder for `temporary` files; `streams` is the folder of each process's output and records. `hung` says that it was ended because nothing went on.
    """

    folder: Path
    exit_code: int
    lines: tuple[str, ...]
    errors: str
    written: tuple[str, ...]
    seconds: float
    timed_out: bool = False
    streams: Path = Path()
    exit_codes: tuple[int, ...] = ()
    first_failed: int | None = None
    hung: bool = False
    temporary: Path = Path("/nowhere")
    wrote_temporary: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


def copy_job(job: Job, scratch: Path) -> dict[str, tuple[int, int]]:
    """Copy the job's folder to `scratch`, which must not exist, and change its files; returns the state of the copy's files."""
    copy_to_scratch(job.folder, scratch)
    for name, text in job.changed.items():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        (scratch / name).write_text(text, encoding="utf-8")
    return file_states(scratch)


def copy_to_scratch(folder: Path, scratch: Path) -> dict[str, tuple[int, int]]:
    """Copy `folder` to `scratch`, which must not exist; large data is linked. Returns the state of the files in the copy."""
    shutil.copytree(folder, scratch, ignore=_UNINTERESTING, copy_function=_copy_or_link, ignore_dangling_symlinks=True)
    return file_states(scratch)


def _copy_or_link(source: str, target: str) -> None:
    if os.path.getsize(source) < _LARGE or source.endswith(".py"):
        shutil.copy2(source, target)
    else:
        os.symlink(os.path.realpath(source), target)


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
