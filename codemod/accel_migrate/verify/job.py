"""A script to run in a scratch copy of its folder, and what a run of it left behind."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

_UNINTERESTING = shutil.ignore_patterns("__pycache__", ".git", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache")
_LARGE = 2**20
"""Bytes from which on a file is linked, not copied (see `hooks.written`, which copies it before a write)."""
_COPIED = (".py", ".ipynb", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".txt", ".csv", ".tsv", ".sh", ".md", "")
"""Endings of files that are copied if they are not large; all others are data."""
_MANY = 2000
"""Files of one folder from which on the folder is linked."""


OF_NOTEBOOK = "_ipynb.py"
"""How the name ends of the script that is made of a notebook."""


def shown(file: str) -> str:
    """A file of a scratch copy as it is called in reports."""
    return f"{file.removesuffix(OF_NOTEBOOK)}.ipynb" if file.endswith(OF_NOTEBOOK) else file


@dataclass(frozen=True)
class Job:
    """A script with its arguments; `script` is relative to `folder`, which is also where it runs unless `cwd` says otherwise.

    `module` is the dotted name, in the folder `home`, where it runs as `python -m`; `changed` holds other texts for files of the copy, by path;
    `distributed` gives it torchrun's environment on one process too; `starts_processes` says that it starts them itself.
    """

    folder: Path
    script: str
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict, hash=False)
    cwd: str = "."
    module: str = ""
    home: str = "."
    changed: dict[str, str] = field(default_factory=dict, hash=False)
    distributed: bool = False
    starts_processes: bool = False

    @property
    def shown(self) -> str:
        """The script as it is called in reports: a notebook by its own name."""
        return shown(self.script)

    def shown_beside(self, original: Job) -> str:
        """As it is called in the report of a comparison with `original`."""
        if self.script != original.script:
            return self.shown
        if self.folder != original.folder:
            return str(self.folder / self.shown)
        return "what accel-migrate makes of it" if self.changed != original.changed else "itself"


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
    _copy_folder(folder, scratch)
    return file_states(scratch)


def _copy_folder(folder: Path, target: Path) -> None:
    target.mkdir()
    entries = list(os.scandir(folder))
    left_out = _UNINTERESTING(str(folder), [entry.name for entry in entries])
    for entry in entries:
        place = target / entry.name
        if entry.name in left_out or not (entry.is_file() or entry.is_dir()):
            continue  # links that lead nowhere, sockets, pipes
        if not entry.is_dir():
            _copy_or_link(entry.path, place)
        elif _is_large_folder(entry.path):
            place.symlink_to(os.path.realpath(entry.path))
        else:
            _copy_folder(Path(entry.path), place)


def _copy_or_link(source: str, target: Path) -> None:
    may_read = os.access(source, os.R_OK)
    if may_read and os.path.getsize(source) < _LARGE and os.path.splitext(source)[1].lower() in _COPIED:
        shutil.copyfile(source, target)
        shutil.copystat(source, target)
        target.chmod(target.stat().st_mode | 0o600)
    else:
        target.symlink_to(os.path.realpath(source))


def _is_large_folder(path: str) -> bool:
    """Whether it holds thousands of files of data, and no code."""
    names = os.listdir(path)
    return len(names) > _MANY and not any(name.endswith(".py") for name in names)


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Size in bytes and time of change in nanoseconds of each file below `folder`; links to data elsewhere are left out."""
    states: dict[str, tuple[int, int]] = {}
    top = str(folder.resolve()) + os.sep
    for path in sorted(folder.rglob("*")):
        elsewhere = path.is_symlink() and not os.path.realpath(path).startswith(top)
        if path.is_file() and not elsewhere and "__pycache__" not in path.parts:
            stat = path.stat()
            states[path.relative_to(folder).as_posix()] = stat.st_size, stat.st_mtime_ns
    return states


def written_since(folder: Path, before: dict[str, tuple[int, int]]) -> tuple[str, ...]:
    return tuple(name for name, state in file_states(folder).items() if before.get(name) != state)
