"""What only some processes reach: directly under a condition on ranks, or in a function that is called under one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_migrate.check.call_sites import left_out
from accel_migrate.check.rank_conditions import Guard
from accel_migrate.facts.scopes import FunctionNode

if TYPE_CHECKING:
    from accel_migrate.check.program import Program


@dataclass(frozen=True, eq=False)
class Guarded:
    """`place`, under `guard`, is or leads to `target`."""

    place: ast.AST
    target: ast.AST
    guard: Guard

    @property
    def is_direct(self) -> bool:
        return self.place is self.target


Holds = Callable[[ast.AST, ast.Call, FunctionNode], bool]


def guarded(
    program: Program, wanted: Container[ast.AST], kinds: tuple[type[ast.AST], ...] = (ast.Call,), holds: Holds | None = None
) -> Iterator[Guarded]:
    """Each of the `wanted` nodes, of these `kinds`, that some processes reach and others do not; and calls that lead to one.

    `holds`: whether such a node is wanted where this call of this function leads to it.
    """
    for _, node in program.facts.nodes(*kinds):
        if node in wanted:
            guard = _guard(program, node, node)
            if guard is not None:
                yield Guarded(node, node, guard)
    for call, callees in list(program.facts.callees.items()):
        if call in wanted or next(program.ranks.guards(call), None) is None:
            continue
        target = next(
            (
                n
                for f in sorted(callees, key=lambda f: f.lineno)
                for n in program.reach.running(f, left_out(program, call, f))
                if n in wanted and (holds is None or holds(n, call, f))
            ),
            None,
        )
        guard = _guard(program, call, target) if target is not None else None
        if target is not None and guard is not None:
            yield Guarded(call, target, guard)


def _guard(program: Program, place: ast.AST, target: ast.AST) -> Guard | None:
    """What keeps some processes from `place`, unless what they run in its place does the same as `target`."""
    for guard in program.ranks.guards(place):
        if not any(_same(program, n, target) for branch in guard.branches for n in program.reach.running(branch)):
            return guard
    return None


def _same(program: Program, node: ast.AST, target: ast.AST) -> bool:
    if node is target:
        return True
    names = program.reach.collectives
    return (
        isinstance(node, ast.Call)
        and isinstance(target, ast.Call)
        and node in names
        and names[node] == names.get(target)
    )
