"""What a result must pass before anyone sees it: it compiles, and the tool leaves it alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from accel_migrate.project import Project
from accel_migrate.result import FileChange, Result
from accel_migrate.source import compiler_flags, parse


def objection(project: Project, changes: Sequence[FileChange], again: Callable[[Project], Result]) -> str:
    """Why `changes` must not be written, in one line; empty where nothing speaks against them.

    `again` migrates a project without asking the gate; it gets `project` as it would be after `changes`.
    """
    for change in changes:
        problem = _does_not_compile(change)
        if problem:
            return problem
    second = again(project.with_texts({change.source.path: change.after for change in changes}))
    return next((_not_settled(change) for change in second.changes), "")


def _does_not_compile(change: FileChange) -> str:
    path = str(change.source.path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(parse(change.after, path), path, "exec", flags=compiler_flags(change.source), dont_inherit=True)
    except SyntaxError as error:
        return f"{path}: the rewritten line {error.lineno} does not compile: {error.msg}"
    except (RecursionError, MemoryError, ValueError) as error:
        return f"{path}: the rewritten file does not compile: {error}"
    return ""


def _not_settled(change: FileChange) -> str:
    rules = ", ".join(sorted({edit.rule for edit in change.edits})) or "no rule"
    return f"{change.source.path}: a second run would change the result again ({rules})"
