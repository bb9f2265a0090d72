"""A temporary directory has another name in every process: all of them use that of process 0.

Otherwise the main process saves into its own, and the others look for the file in theirs. Nobody may leave the `with` block, at the
end of which the directory goes, before all have read what is in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import AddImport, Edit, Finding, InsertAfter, InsertBefore
from accel_migrate.rules.backward import out_of_reach

ID = "temporary-files"
TITLE = "Share one temporary directory among the processes"
WHY = "what the main process saves there, all processes load"

DIRECTORY = "tempfile.TemporaryDirectory"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for _, block in context.facts.nodes(ast.With):
        assert isinstance(block, ast.With)
        names = [i.optional_vars.id for i in block.items if isinstance(i.optional_vars, ast.Name) and context.facts.external.get(i.context_expr) == DIRECTORY]  # type: ignore[arg-type]
        if names and _is_read(context, block):
            yield from _share(context, block, names)


def _is_read(context: Context, block: ast.With) -> bool:
    """Whether something saved in `block` is loaded there, too."""
    loads = context.calls_of("torch.load", "numpy.load", "open")
    return any(context.facts.inside(call, block) for call in loads)


def _share(context: Context, block: ast.With, names: list[str]) -> Iterator[Edit | Finding]:
    try:
        wait = context.say("@accelerator@.wait_for_everyone()", block)
    except Unreachable:
        yield out_of_reach(context, block)
        return
    source, last = context.source(block), block.body[-1]
    targets, values = ", ".join(names), ", ".join(names)
    targets = f"{targets}," if len(names) == 1 else targets
    yield InsertBefore(source=source, rule=ID, why=WHY, node=block.body[0], template=f"{targets} = broadcast_object_list([{values}])")
    insert = InsertBefore if isinstance(last, ast.Return) else InsertAfter
    yield insert(source=source, rule=ID, why="the directory goes with this block", node=last, template=wait)
    yield AddImport(source=source, rule=ID, why=WHY, module=f"{context.dialect.module}.utils", names=("broadcast_object_list",))
