"""Gradient accumulation by hand: a backward pass for every batch, an optimizer step for some of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accel_migrate.facts.facts import Backward, Facts
from accel_migrate.facts.values import Role


@dataclass(frozen=True)
class Window:
    """`step` is the `if` that steps the optimizer; `condition` is its test, if it already holds at the backward pass."""

    step: ast.If
    condition: ast.expr | None


def accumulation_window(facts: Facts, backward: Backward) -> Window | None:
    """The window in which `backward` accumulates; None if every backward pass is followed by a step."""
    for statement, followers in _around(facts, facts.statement(backward.call)):
        for index, follower in enumerate(followers):
            if _steps(facts, follower):
                if not isinstance(follower, ast.If) or follower.orelse or not _counts(follower.test):
                    return None
                settled = _is_settled(follower.test, [*followers[:index]], statement)
                return Window(follower, follower.test if settled else None)
    return None


def _around(facts: Facts, statement: ast.stmt) -> Iterator[tuple[ast.stmt, list[ast.stmt]]]:
    """`statement`, and the `with` blocks around it, each with the statements that follow it in its block."""
    while True:
        block = facts.block(statement)
        index = next(i for i, s in enumerate(block) if s is statement)
        yield statement, block[index + 1 :]
        parent = facts.parents[statement]
        if not isinstance(parent, ast.With):
            return
        statement = parent


def _steps(facts: Facts, statement: ast.stmt) -> bool:
    """Whether an optimizer steps in `statement`."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            base, name = facts.methods.get(node, (frozenset(), ""))
            if name == "step" and any(facts.role(v) in {Role.OPTIMIZER, Role.SCALER} for v in base):
                return True
    return False


def _counts(test: ast.expr) -> bool:
    """Whether `test` asks for every so many batches."""
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))


def _is_settled(test: ast.expr, between: list[ast.stmt], backward: ast.stmt) -> bool:
    """Whether nothing from the backward pass to the `if` changes what `test` reads."""
    read = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    attributes = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
    for statement in (backward, *between):
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in read:
                return False
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in attributes:
                return False
    return not any(isinstance(n, ast.Call) and not (isinstance(n.func, ast.Name) and n.func.id == "len") for n in ast.walk(test))
