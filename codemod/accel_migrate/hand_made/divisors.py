"""Numbers of devices by which a script for one process per device divides: they are numbers of processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.facts.distributed import When, process_group_calls, when
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.ranks import Place, Ranks


def divisors(context: Context, ranks: Ranks) -> set[Place]:
    """The places that hold a number of devices and are divided by somewhere, parameters and what is passed for them."""
    calls = process_group_calls(context.facts)
    if not any(when(context.facts, call) is When.ALWAYS for call in calls):
        return set()
    found: set[Place] = set()
    pending = [place for node in _divided_by(context) if (place := ranks.place(node)) is not None]
    while pending:
        place = pending.pop()
        meaning = ranks.places.get(place)
        if place in found or meaning is None or meaning.kind is not Kind.LOCAL_WORLD:
            continue
        found.add(place)
        pending += [inner for source in ranks.sources.get(place, ()) if (inner := ranks.place(source)) is not None]
    return found


def _divided_by(context: Context) -> Iterator[ast.expr]:
    for _, node in context.facts.nodes(ast.BinOp, ast.AugAssign):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.FloorDiv):
            yield node.right if isinstance(node, ast.BinOp) else node.value
