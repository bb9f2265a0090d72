"""Batches made by hand, without a loader, are cut where they are made: each process keeps its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Inner

ID = "shard-batch"
TITLE = "Keep this process's rows of a batch made by hand"
WHY = "every process makes the same batch; each keeps its share of the rows"


def apply(context: Context) -> Iterator[Edit]:
    for statement in context.facts.cuts:
        assert isinstance(statement, ast.Assign)
        template = context.say("@accelerator@.shard_batch({x})", statement)
        yield context.replace(ID, statement.value, template, WHY, x=Inner(statement.value))
