"""Which files a run writes, and where to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.report.outcome import Outcome
from accel_migrate.source import Source

FileToWrite = tuple[Path, str, Source]
"""Where to, the text, and the file it comes from."""


def files_to_write(outcomes: Iterable[Outcome], in_place: bool, folder: str | None) -> list[FileToWrite]:
    """With `in_place` the changed files; with `folder` the whole of every changed program, so that it runs there.

    Raises:
        UserError: two programs share a file and need different changes, or `folder` is where the sources are.
    """
    files: dict[str, FileToWrite] = {}
    for outcome in outcomes if in_place or folder is not None else ():
        for path, text, source in _files(outcome, folder):
            known = files.setdefault(os.path.realpath(path), (path, text, source))
            if known[1] != text:
                raise UserError(f"{path}: two programs need different changes of this file; migrate them one at a time")
    return list(files.values())


def output_path(source: Source, root: Path, folder: Path) -> Path:
    """Where `source` goes in `folder`: as it lies in the project, or at the top if it lies outside."""
    path = Path(os.path.abspath(source.path))
    return folder / (path.relative_to(root) if path.is_relative_to(root) else path.name)


def is_script(output: str | None) -> bool:
    """Whether `--output` names a script, into which a notebook is to be turned, and not a folder."""
    return output is not None and output.endswith(".py")


def is_notebook(output: str | None) -> bool:
    """Whether `--output` names a notebook, into which another one is to be migrated, and not a folder."""
    return output is not None and output.endswith(".ipynb") and not Path(output).is_dir()


def _files(outcome: Outcome, folder: str | None) -> Iterable[FileToWrite]:
    if folder is None:
        return [(change.source.path, change.after, change.source) for change in outcome.changes]
    if not outcome.changes:
        return []
    if is_script(folder) or is_notebook(folder):
        return _beside(outcome, Path(folder))
    after = {change.source.path: change.after for change in outcome.changes}
    root = outcome.project.root
    return [
        (_new_place(source, root, Path(folder)), after.get(source.path, source.text), source)
        for source in outcome.project.sources.values()
    ]


def _beside(outcome: Outcome, script: Path) -> Iterable[FileToWrite]:
    """The script or notebook, and beside it the modules of the project, unless it is written where they are and they stay as they are."""
    entry, root = outcome.project.entry, outcome.project.root
    assert entry.notebook is not None
    after = {change.source.path: change.after for change in outcome.changes}
    text = after.get(entry.path, entry.text)
    if script.suffix == ".ipynb":
        if os.path.realpath(script) == os.path.realpath(entry.path):
            raise UserError(f"--output {script}: is the source itself; use --write to change it in place")
        yield script, text, entry
    else:
        yield script, entry.notebook.script(text), replace(entry, notebook=None)
    for source in outcome.project.sources.values():
        if source is not entry and (source.path in after or not _is_in_place(source, root, script.parent)):
            yield _new_place(source, root, script.parent), after.get(source.path, source.text), source


def _is_in_place(source: Source, root: Path, folder: Path) -> bool:
    return os.path.realpath(output_path(source, root, folder)) == os.path.realpath(source.path)


def _new_place(source: Source, root: Path, folder: Path) -> Path:
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is not a folder")
    path = output_path(source, root, folder)
    if os.path.realpath(path) == os.path.realpath(source.path):
        raise UserError(f"--output {folder}: {path} is the source itself; use --write to change it in place")
    return path
