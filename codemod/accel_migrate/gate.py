"""What a result must pass before anyone sees it: it compiles, its names are bound, and the tool leaves it alone."""

from __future__ import annotations

import builtins
import symtable
import warnings
from collections.abc import Callable, Sequence

from accel_migrate.project import Project
from accel_migrate.result import FileChange, Result
from accel_migrate.source import compiler_flags, parse

IMPLICIT = {"__file__", "__path__", "__annotations__", "__builtins__", "__cached__"}
"""Global variables that every module has."""


def objection(project: Project, changes: Sequence[FileChange], again: Callable[[Project], Result]) -> str:
    """Why `changes` must not be written, in one line; empty where nothing speaks against them.

    `again` migrates a project without asking the gate; it gets `project` as it would be after `changes`.
    """
    for change in changes:
        problem = _does_not_compile(change) or _not_bound(change)
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


def _not_bound(change: FileChange) -> str:
    """What is wrong where the result reads a global variable that the original did not read or bound, and that nothing binds any more."""
    new = unbound(change.after) - unbound(change.source.text)
    return f"{change.source.path}: nothing binds `{min(new)}` in the rewritten file" if new else ""


def unbound(text: str) -> set[str]:
    """The global variables that `text` reads and never binds; none where a star import may bind them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(text, "module", "exec")
    except SyntaxError:  # a notebook that waits at its top level
        return set()
    if "import *" in text:
        return set()
    tables, read, bound = [top], set[str](), set(dir(builtins)) | IMPLICIT
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            gets_value = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace() or symbol.is_parameter()
            if gets_value and (table is top or symbol.is_declared_global()):
                bound.add(symbol.get_name())
            # symtable takes a function of the name "top" for a module, whose own names are global
            if symbol.is_referenced() and (table is top or (symbol.is_global() and not gets_value) or symbol.is_declared_global()):
                read.add(symbol.get_name())
    return read - bound


def _not_settled(change: FileChange) -> str:
    rules = ", ".join(sorted({edit.rule for edit in change.edits})) or "no rule"
    return f"{change.source.path}: a second run would change the result again ({rules})"
