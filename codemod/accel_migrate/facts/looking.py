"""Loaders that stay as they are: their batches reach no model, or only the main process reads them."""

from __future__ import annotations

import ast

from accel_migrate.facts.distributed import conditions, process_group_calls
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.ranks import Ranks


def only_looked_at(facts: Facts) -> set[object]:
    """Loaders of whose batches each process that reads them needs all.

    All their loops run no model and hand no batch on: what is computed there is the same on all processes. Or all of them
    run on the main process alone, as evaluations of distributed programs do.
    """
    used = {c for f in facts.forwards.values() for c in f.contexts} | {loop.node for loop in facts.loops.values() if loop.trains}
    used |= {loop.node for loop in facts.loops.values() if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(loop.node))}
    used -= _of_main_process(facts)
    idle = {v for loop in facts.loops.values() if loop.node not in used for v in loop.loaders}
    return _evaluated_whole(facts) | idle - {v for loop in facts.loops.values() if loop.node in used for v in loop.loaders} - facts.drawn


def _evaluated_whole(facts: Facts) -> set[object]:
    """Loaders of evaluations whose rows cannot be gathered, since they bear the numbers of their samples: each process evaluates all."""
    numbered = {loop.node for loop in facts.loops.values() if any(facts.inside(statement, loop.node) for statement in facts.numbered)}
    others = {v for loop in facts.loops.values() if loop.trains or loop.node not in numbered for v in loop.loaders}
    return {v for loop in facts.loops.values() if loop.node in numbered for v in loop.loaders} - others


def _of_main_process(facts: Facts) -> set[ast.AST]:
    """Loops without training that only the main process of a hand-written process group runs."""
    if not process_group_calls(facts):
        return set()
    ranks = Ranks.of_program(facts)
    return {loop.node for loop in facts.loops.values() if not loop.trains and any(_asks_main(ranks, t, wanted) for t, wanted in conditions(facts, loop.node))}


def _asks_main(ranks: Ranks, test: ast.expr, wanted: bool) -> bool:
    """Whether `test` is `wanted` on the main process only."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and wanted:
        return any(_asks_main(ranks, part, True) for part in test.values)
    meaning = ranks.of(test)
    return meaning is not None and meaning.kind is Kind.MAIN and meaning.negated is not wanted
