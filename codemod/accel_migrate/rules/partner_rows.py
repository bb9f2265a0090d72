"""Partners of the rows of a batch (mixup, CutMix) are taken from the whole batch.

Every process draws the order of the whole batch's rows and keeps the entries of its own; what it picks by them is gathered.
Rows that are turned round (`x.flip(0)`, `x.roll(1, 0)`) are gathered, turned and cut again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner
from accel_migrate.facts.permuted import orders, turned
from accel_migrate.rules._drawing import draw
from accel_migrate.rules._partners import followed, is_turned
from accel_migrate.rules.backward import out_of_reach

ID = "partner-rows"
TITLE = "Take partners of the rows of a batch from the whole batch"
WHY = "each process holds only some of the rows that may be partners"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for call in orders(context.facts):
        rows = followed(context, call)
        if rows is not None:
            yield from draw(context, call, ID, WHY)
            for node in rows:
                yield from _gather(context, node)
    for _, node in context.facts.nodes(ast.Call):
        if is_turned(context, node):
            yield from _turn(context, node)  # type: ignore[arg-type]


def _gather(context: Context, rows: ast.expr) -> Iterator[Edit | Finding]:
    try:
        text, imports = context.say_or_import("@accelerator@.gather_for_metrics({x})", rows, ID)
    except Unreachable:
        yield out_of_reach(context, rows)
        return
    yield context.replace(ID, rows, text, WHY, x=Inner(rows))
    yield from imports


def _turn(context: Context, call: ast.Call) -> Iterator[Edit | Finding]:
    rows = turned(context.facts, call)
    assert rows is not None
    try:
        text, imports = context.say_or_import("@accelerator@.local_rows({x})", call, ID)
    except Unreachable:
        yield out_of_reach(context, call)
        return
    yield context.replace(ID, call, text, WHY, x=Inner(call))
    yield from imports
    yield from _gather(context, rows)
