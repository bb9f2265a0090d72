"""Batches made by hand, without a loader, are cut where they are made: each process keeps its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, InsertBefore
from accel_migrate.rules.backward import out_of_reach

ID = "shard-batch"
TITLE = "Keep this process's rows of a batch made by hand"
WHY = "every process makes the same batch; each keeps its share of the rows"
STATE = "the recurrent state is made for the whole batch; each process keeps that of its rows"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return  # each process makes its own batches
    for place in (*(context.facts.states if context.dialect.exact else ()), *context.facts.cuts):
        try:
            context.accelerator(place)
        except Unreachable:
            yield out_of_reach(context, place)
            return
    yield from _cut(context)


def _cut(context: Context) -> Iterator[Edit]:
    for made in context.facts.states if context.dialect.exact else ():
        yield context.replace(ID, made, context.say("@accelerator@.shard_batch({x}, dim=1)", made), STATE, x=Inner(made))
    for place, cut in context.facts.cuts.items():
        if isinstance(place, ast.For):
            yield _in_body(context, place, cut.names)
        else:
            template = "@accelerator@.shard_batch(tuple({x}))" if cut.listed else "@accelerator@.shard_batch({x})"
            yield context.replace(ID, place, context.say(template, place), WHY, x=Inner(place))


def _in_body(context: Context, loop: ast.For, names: tuple[str, ...]) -> Edit:
    """A loop over batches cuts each of them first."""
    bound = ", ".join(names)
    batch = bound if len(names) == 1 else f"({bound})"
    template = context.say(f"{bound} = @accelerator@.shard_batch({batch})", loop)
    return InsertBefore(source=context.source(loop), rule=ID, why=WHY, node=loop.body[0], template=template)
