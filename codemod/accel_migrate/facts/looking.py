"""Loaders that are only looked at: their batches reach no model, so that every process may read all of them."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts


def only_looked_at(facts: Facts) -> set[object]:
    """Loaders all of whose loops run no model and hand no batch on: what is computed there is the same on all processes."""
    used = {c for f in facts.forwards.values() for c in f.contexts} | {loop.node for loop in facts.loops.values() if loop.trains}
    used |= {loop.node for loop in facts.loops.values() if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(loop.node))}
    idle = {v for loop in facts.loops.values() if loop.node not in used for v in loop.loaders}
    return idle - {v for loop in facts.loops.values() if loop.node in used for v in loop.loaders} - facts.drawn
