"""Results that come back to the rows of the same process: a teacher's outputs, kept batch by batch and read by the number of the batch."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.gathered import later
from accel_migrate.facts.meetings import Meetings


def returning_gathers(facts: Facts) -> set[ast.stmt]:
    """Statements of the evaluation gathers all of whose rows are only kept for the same rows in a training loop."""
    candidates = {statement: gather for statement, gather in facts.gathers.items() if gather.cut and gather.backward is None}
    if not candidates or not any(loop.trains for loop in facts.loops.values()):
        return set()
    meetings = Meetings(facts)
    return {statement for statement, gather in candidates.items() if _all_return(facts, meetings, gather)}


def _all_return(facts: Facts, meetings: Meetings, gather: Gather) -> bool:
    names = {*gather.names, *gather.paths.values()}
    read = [n for n in later(facts, gather) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)]
    rows = [*gather.hoisted, *read]
    return bool(rows) and all(meetings.stay_right(node) for node in rows)
