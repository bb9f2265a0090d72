"""Functions that nothing in the program calls: helpers of a shared module which other scripts use.

What stands in them never runs with this program's accelerator, so it is no reason to leave the program alone.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope

_HARMLESS_DECORATORS = {"no_grad", "inference_mode", "enable_grad"}


def unused_functions(facts: Facts, home: Scope) -> set[ast.AST]:
    """Top-level functions which are neither called, from the home of the accelerator either, nor mentioned anywhere."""
    alive = facts.visited | facts.called_back | _called_from(facts, home)
    mentioned = {n.id for _, n in facts.nodes(ast.Name) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    mentioned |= {n.attr for _, n in facts.nodes(ast.Attribute) if isinstance(n, ast.Attribute)}
    candidates = [s.node for s in facts.scopes.values() if s.parent is not None and s.parent.parent is None and isinstance(s.node, ast.FunctionDef)]
    found: set[ast.AST] = {f for f in candidates if f not in alive and _is_plain(f) and f.name not in mentioned}
    while more := {f for f in candidates if f not in found | alive and _only_called_by(facts, f, found)}:
        found |= more
    return found


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
