"""The loops over data loaders: which of them train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.explain.said import Said, places, quoted, said
from accel_migrate.facts.facts import Facts, Loop


def loops(facts: Facts) -> Iterator[Said]:
    """One sentence for each loop."""
    for loop in facts.loops.values():
        if isinstance(loop.node, ast.For):
            yield said(f"the loop over {quoted(loop.node.iter)} {_what(facts, loop)}", loop.scope.source, loop.node)


def _what(facts: Facts, loop: Loop) -> str:
    if loop.trains:
        inside = [b.call for b in facts.backwards.values() if facts.inside(b.call, loop.node)]
        where = f"in {places(facts, inside, loop.scope.source)}" if inside else "in a function that it calls"
        return f"trains: a backward pass runs in it, {where}; each process gets its part of every batch"
    gathers = [g for g in facts.gathers.values() if facts.inside(g.statement, loop.node)]
    made_whole = "; outputs and targets are made whole after the forward pass" if any(g.cut for g in gathers) else ""
    return f"evaluates: no backward pass runs in it{made_whole}"
