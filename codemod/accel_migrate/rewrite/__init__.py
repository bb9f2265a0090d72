"""Applies edits to a file's text; everything that they do not name stays byte for byte."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from accel_migrate.edits import (
    AddArgument,
    DropImportIfUnused,
    Edit,
    InsertAfter,
    InsertBefore,
)
from accel_migrate.errors import UserError
from accel_migrate.rewrite.conflicts import EditConflict, conflicts, content
from accel_migrate.rewrite.formfeeds import hidden, shown
from accel_migrate.rewrite.unused import unused_imports
from accel_migrate.source import Source, parse

__all__ = ["EditConflict", "conflicts", "rewrite"]

_FRAMES = 8_000


def rewrite(source: Source, edits: Sequence[Edit]) -> str:
    """The text of `source` after all `edits`, which must name nodes of `source.tree`.

    Raises:
        EditConflict: two edits contradict each other; see `conflicts`.
        UserError: libcst cannot read the file.
        LookupError: an edit names a node that is not of `source.tree`.
    """
    for conflict in conflicts(edits):
        raise conflict
    if not edits:
        return source.text
    with _deep_recursion():
        return _rewritten(source, edits)


def _rewritten(source: Source, edits: Sequence[Edit]) -> str:
    import libcst as cst  # costs more than all the rest where nothing is rewritten

    from accel_migrate.rewrite.apply import apply, without_imports

    try:
        module = cst.parse_module(hidden(source.text))
    except cst.ParserSyntaxError as error:
        raise UserError(f"{source.path}: libcst cannot read this file's syntax; migrate it by hand") from error
    changes = [edit for edit in _distinct(edits) if not isinstance(edit, DropImportIfUnused)]
    if changes:
        module = apply(source.tree, module, changes)
    text = module.code
    tree = _parsed(text)
    unused = unused_imports(tree, {edit.name for edit in edits if isinstance(edit, DropImportIfUnused)})
    if unused.statements or unused.aliases:
        text = without_imports(source, tree, module, unused).code
        _parsed(text)
    return shown(text)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """libcst takes several Python frames per level of nesting, so that trees which `ast` builds would be too deep."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _parsed(text: str) -> ast.Module:
    try:
        return parse(text, "the rewritten file")
    except SyntaxError as error:
        raise AssertionError(f"the edits made text that does not parse, line {error.lineno}: {error.msg}") from error


def _distinct(edits: Sequence[Edit]) -> list[Edit]:
    """Without repetitions, except of inserts and positional arguments, which may well be meant twice."""
    return list({edit if _repeatable(edit) else content(edit): edit for edit in reversed(edits)}.values())[::-1]


def _repeatable(edit: Edit) -> bool:
    return isinstance(edit, InsertAfter | InsertBefore) or (isinstance(edit, AddArgument) and edit.keyword is None)
