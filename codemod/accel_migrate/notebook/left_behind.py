"""Changes of the notebook's own objects inside of a launched call, which happen to a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.notebook.launch import Launch

_MUTATING = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault", "sort", "update"}


def left_behind(facts: Facts, launch: Launch) -> Iterator[tuple[ast.AST, str]]:
    """Where the launched functions change an object that another cell or the caller has, and its name; each name once."""
    seen: set[str] = set()
    for node in sorted(_changes(facts, launch), key=lambda n: (n.lineno, n.col_offset)):  # type: ignore[attr-defined]
        name = _changed_name(node)
        if name is not None and name not in seen and _is_shared(facts, launch, node, name):
            seen.add(name)
            yield node, name


def _changes(facts: Facts, launch: Launch) -> set[ast.AST]:
    nodes = {node for function in launch.inside for node in ast.walk(function)}
    return {node for node in nodes if isinstance(node, ast.Call | ast.Subscript | ast.Name)}


def _changed_name(node: ast.AST) -> str | None:
    """The variable whose object `node` changes (`x.append(...)`, `x[i] = ...`), or which it binds."""
    if isinstance(node, ast.Call):
        method = node.func
        receiver = method.value if isinstance(method, ast.Attribute) and method.attr in _MUTATING else None
    elif isinstance(node, ast.Subscript):
        receiver = node.value if isinstance(node.ctx, ast.Store) else None
    else:
        receiver = node if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None
    while isinstance(receiver, ast.Subscript):
        receiver = receiver.value
    return receiver.id if isinstance(receiver, ast.Name) else None


def _is_shared(facts: Facts, launch: Launch, node: ast.AST, name: str) -> bool:
    """Whether the notebook sees the object of that name: a global which other cells read, or what a launched call was given."""
    scope = facts.scope(node)
    if isinstance(node, ast.Name):
        return name in scope.outer and _is_read_outside(facts, launch, name)
    owner = scope.owner(name)
    if owner is None:
        return False
    if owner.parent is None:
        return _is_read_outside(facts, launch, name)
    return any(owner.node in facts.callees[call] for call in launch.calls) and _is_given_a_variable(launch, owner.node, name)


def _is_read_outside(facts: Facts, launch: Launch, name: str) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) and not launch.runs(facts, node)
        for _, node in facts.nodes(ast.Name)
    )


def _is_given_a_variable(launch: Launch, function: ast.AST, name: str) -> bool:
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]  # type: ignore[attr-defined]
    return name in names and any(
        isinstance(value, ast.Name)
        for call in launch.calls
        for value in (*call.args[names.index(name) : names.index(name) + 1], *(k.value for k in call.keywords if k.arg == name))
    )
