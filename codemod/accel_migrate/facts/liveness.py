"""Whether a variable that a loop assigns is read in a later round, or after the loop."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts


def outlives(facts: Facts, name: str, loop: ast.AST) -> bool:
    """Whether what the round of `loop` leaves in `name` is read by another one or after the loop."""
    nodes = facts.names(facts.function(loop), name)
    inside = sorted((n for n in nodes if facts.inside(n, loop)), key=_place)
    after = sorted((n for n in nodes if not facts.inside(n, loop) and _place(n) > _place(loop)), key=_place)
    return _is_read_first(facts, after) or _is_read_first(facts, inside) or _escapes(facts, inside, loop)


def starts_anew(facts: Facts, name: str, loop: ast.AST) -> bool:
    """Whether each round of `loop` gives `name` a value before it reads it."""
    nodes = [n for n in facts.names(facts.function(loop), name) if facts.inside(n, loop)]
    inside = sorted(nodes, key=_place)
    stored = any(isinstance(n.ctx, ast.Store) and not isinstance(facts.parents[n], ast.AugAssign) for n in inside)
    return stored and not _is_read_first(facts, inside) and not _escapes(facts, inside, loop)


def _is_read_first(facts: Facts, nodes: list[ast.Name]) -> bool:
    """Whether the statement of the first of `nodes` reads the variable, be it to assign it anew."""
    if not nodes:
        return False
    first = facts.statement(nodes[0])
    same = [n for n in nodes if facts.statement(n) is first]
    return isinstance(first, ast.AugAssign) or any(isinstance(n.ctx, ast.Load) for n in same)


def _escapes(facts: Facts, nodes: list[ast.Name], loop: ast.AST) -> bool:
    """Whether the first assignment is conditional, and some read is not under its condition."""
    if not nodes or isinstance(nodes[0].ctx, ast.Load):
        return False
    block = facts.parents[facts.statement(nodes[0])]
    while isinstance(block, ast.If) and block is not loop and _always_stores(block, nodes[0].id):
        block = facts.parents[block]
    if block is loop or not isinstance(block, ast.If | ast.Try):
        return False
    return any(isinstance(n.ctx, ast.Load) and not facts.inside(n, block) for n in nodes)


def _always_stores(choice: ast.If, name: str) -> bool:
    """Whether each branch of `choice` gives `name` a value, or leaves."""
    return bool(choice.orelse) and all(_stores(branch, name) for branch in (choice.body, choice.orelse))


def _stores(block: list[ast.stmt], name: str) -> bool:
    return any(_is_store(statement, name) for statement in block)


def _is_store(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, ast.If):
        return _always_stores(statement, name)
    if isinstance(statement, ast.Raise | ast.Continue | ast.Break | ast.Return):
        return True
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(
        isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)
        for target in targets
        for n in ast.walk(target)
    )


def _place(node: ast.AST) -> tuple[int, int]:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]
