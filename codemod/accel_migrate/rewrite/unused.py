"""Imports that nothing reads any more."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Unused:
    """Import statements of one tree to delete whole, and single names to take out of others."""

    statements: list[ast.stmt]
    aliases: list[ast.alias]


def unused_imports(tree: ast.Module, names: Collection[str]) -> Unused:
    """What of `names` is imported and never read in `tree`. Imports in `try` bodies stay: they may be probes."""
    idle = set(names) - set(_reads(tree))
    statements: list[ast.stmt] = []
    aliases: list[ast.alias] = []
    for statement in _imports(tree.body) if idle else ():
        gone = [alias for alias in statement.names if _bound(alias, statement) in idle]
        if len(gone) == len(statement.names):
            statements.append(statement)
        else:
            aliases += gone
    return Unused(statements, aliases)


def _imports(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield statement
        elif isinstance(statement, ast.ImportFrom):
            if statement.module != "__future__":
                yield statement
        elif not isinstance(statement, ast.Try):
            for block in ("body", "orelse"):
                yield from _imports(getattr(statement, block, ()))


def _bound(alias: ast.alias, statement: ast.Import | ast.ImportFrom) -> str:
    """The name that the import makes."""
    if alias.asname:
        return alias.asname
    return alias.name if isinstance(statement, ast.ImportFrom) else alias.name.partition(".")[0]


def _reads(tree: ast.Module) -> Iterator[str]:
    """Names read anywhere in the file: by code, by annotations in quotes, by `__all__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            for text in _strings(annotation):
                yield from _names_in(text)
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and _sets_all(node):
            yield from _strings(node.value)


def _sets_all(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _strings(node: ast.AST | None) -> Iterator[str]:
    for below in ast.walk(node) if node else ():
        if isinstance(below, ast.Constant) and isinstance(below.value, str):
            yield below.value


def _names_in(annotation: str) -> Iterator[str]:
    try:
        tree = ast.parse(annotation, mode="eval")
    except (SyntaxError, ValueError):
        return
    yield from (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
