"""Tensors whose rows are several batches one after another, as `torch.cat([first, second])` makes them.

Gathered as they are, the rows of the processes would follow each other: process 0's first and second views, then those of
process 1. Blocks of one batch are put in their order again; of several batches it is not known where each begins.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.effects import collates
from accel_migrate.facts.values import Box, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.evaluator import Evaluator

EQUAL, RAGGED = "equal", "ragged"


def joined(evaluator: Evaluator, result: Values, args: Arguments) -> Values:
    """`result` of joining what `args` hold, with what is known of its blocks."""
    given = args.literal(1, "dim") if args.node(1, "dim") is not None else args.literal(1, "axis")
    dim = given if isinstance(given, int) else 0
    kind = _kind(evaluator, args) if args.nodes else ""
    if not kind:
        return result
    return frozenset(replace(v, blocks=kind) if v.spread is Spread.SHARD and v.axis == dim else v for v in locals_of(result))


def _kind(evaluator: Evaluator, args: Arguments) -> str:
    values = args.positional[0] if args.positional else args.get(0, "tensors")
    if Spread.SHARD in ops.spreads(values):  # a list in the batch: several views of it, or one tensor for each sample
        return RAGGED if _collates(evaluator) else EQUAL
    if isinstance(args.nodes[0], ast.ListComp):
        return EQUAL
    parts = [v for box in values if isinstance(box, Box) for key, held in evaluator.machine.held_by(box) if isinstance(key, int) for v in [locals_of(held)]]
    rows = [[v for v in part if v.spread is Spread.SHARD] for part in parts]
    rows = [part for part in rows if part]
    if len(rows) < 2:
        return ""
    batches = {v.taken for part in rows for v in part}
    return EQUAL if len(batches) == 1 and len(rows) == len(parts) and all(v.blocks != RAGGED for part in rows for v in part) else RAGGED


def _collates(evaluator: Evaluator) -> bool:
    return evaluator.machine.ask(collates)

