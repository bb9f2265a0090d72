"""Functions that nothing in the program calls: helpers of a shared module which other scripts use.

What stands in them never runs with this program's accelerator, so it is no reason to leave the program alone.
"""

from __future__ import annotations

import ast
from pathlib import Path

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope

_HARMLESS_DECORATORS = {"no_grad", "inference_mode", "enable_grad"}


def unused_functions(facts: Facts, home: Scope) -> set[ast.AST]:
    """Top-level functions which are neither called, from the home of the accelerator either, nor mentioned anywhere."""
    alive = facts.visited | facts.called_back | _called_from(facts, home)
    mentioned = facts.once(_mentions)
    candidates = [s.node for s in facts.scopes.values() if s.parent is not None and s.parent.parent is None and isinstance(s.node, ast.FunctionDef)]
    found: set[ast.AST] = {f for f in candidates if f not in alive and _is_plain(f) and not mentioned & {(f.name, None), (f.name, facts.source(f).path)}}
    while more := {f for f in candidates if f not in found | alive and _only_called_by(facts, f, found)}:
        found |= more
    return found


def _mentions(facts: Facts) -> set[tuple[str, Path | None]]:
    """Names that are read, with the file in which they are; with None where they may be those of any file.

    What another script does where it is the main program itself, `main()`, is not mentioned here.
    """
    names = {n.name for _, statement in facts.nodes(ast.ImportFrom) for n in statement.names}  # type: ignore[attr-defined]
    found: set[tuple[str, Path | None]] = {(n.attr, None) for _, n in facts.nodes(ast.Attribute) if isinstance(n, ast.Attribute)}
    for source, node in facts.nodes(ast.Name):
        assert isinstance(node, ast.Name)
        if isinstance(node.ctx, ast.Load) and (source is facts.entry or not _is_in_guard(facts, node)):
            found.add((node.id, None if node.id in names or "*" in names else source.path))
    return found


def _is_in_guard(facts: Facts, node: ast.AST) -> bool:
    return any(isinstance(a, ast.If) and "__name__" in facts.text(a.test) for a in facts.ancestors(node))


def _called_from(facts: Facts, home: Scope) -> set[ast.AST]:
    """The function of `home` and what it calls, directly or through others."""
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = [home.node]
    while pending:
        function = pending.pop()
        if function not in seen:
            seen.add(function)
            pending.extend(f for call in ast.walk(function) if isinstance(call, ast.Call) for f in facts.callees.get(call, ()))
    return seen


def _is_plain(function: ast.FunctionDef) -> bool:
    """Whether no decorator hands it to something that may call it."""
    names = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in function.decorator_list]
    return all(name.rpartition(".")[2] in _HARMLESS_DECORATORS for name in names)


def _only_called_by(facts: Facts, function: ast.FunctionDef, callers: set[ast.AST]) -> bool:
    scopes = facts.callers.get(function, {}).values()
    return bool(scopes) and _is_plain(function) and all(_outermost(scope).node in callers for scope in scopes)


def _outermost(scope: Scope) -> Scope:
    """The top-level function in which `scope` stands (or the module itself)."""
    while scope.parent is not None and scope.parent.parent is not None:
        scope = scope.parent
    return scope
