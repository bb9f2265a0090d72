"""Where a script computes with the setting that said how many processes it was to start."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.edits import Finding, Severity
from accel_migrate.facts.distributed import ranks_of, training_starts
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.ranks import Place, Ranks
from accel_migrate.processes.spawn import ID, start_of_processes

ARITHMETIC = (ast.Div, ast.FloorDiv, ast.Mult)


def numbers_of_processes(facts: Facts) -> Iterator[Finding]:
    """Such computations: a launcher starts the processes now, and does not know the setting."""
    starts = [start for call in training_starts(facts) if (start := start_of_processes(facts, call)) is not None]
    counts = [start.count for start in starts if start.count is not None]
    if not counts:
        return
    ranks = ranks_of(facts)
    places = _places(ranks, counts)
    handed = {ast.unparse(value) for start in starts for value in start.given}
    for source, node in facts.nodes(ast.BinOp, ast.AugAssign):
        assert isinstance(node, ast.BinOp | ast.AugAssign)
        statement = facts.statement(node)
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) in handed:
            continue  # the worker gets it from the launcher
        for side in ([node.left, node.right] if isinstance(node, ast.BinOp) else [node.value]) if isinstance(node.op, ARITHMETIC) else []:
            if ranks.place(side) in places and ranks.of(side) is None:
                text = ast.unparse(side)
                yield Finding(
                    source=source, node=side, rule=ID, severity=Severity.WARNING,
                    message=f"`{text}` said how many processes the script was to start; accel launch starts them now, and this reads {text} still",
                    advice="write accelerator.num_processes here (on one machine), or give both the same number",
                )  # fmt: skip


def _places(ranks: Ranks, counts: list[ast.expr]) -> set[Place]:
    """Where the numbers were kept on the way to the call that starts processes."""
    found: set[Place] = set()
    pending = list(counts)
    while pending:
        place = ranks.place(pending.pop())
        if place is not None and place not in found:
            found.add(place)
            pending += ranks.sources.get(place, ())
    return found
