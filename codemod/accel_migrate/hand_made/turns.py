"""`if rank != 0: barrier()`, work, `if rank == 0: barrier()`: the main process goes first.

A barrier that some processes pass before and others after the work must not have other collectives in between.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, Edit, InsertAfter, WrapStatements
from accel_migrate.facts.distributed import ranks_of
from accel_migrate.facts.rank_names import Kind
from accel_migrate.hand_made import ID
from accel_migrate.plan import Plan

WHY = "the main process goes first"


@dataclass(frozen=True)
class Turn:
    """The barriers before and after the statements which the main process runs first."""

    wait: ast.If
    work: tuple[ast.stmt, ...]
    release: ast.If


def turns(context: Context) -> Iterator[Turn]:
    for _, node in context.facts.nodes(ast.If):
        if isinstance(node, ast.If) and _waits(context, node, main=False):
            block = context.facts.block(node)
            start = next(i for i, s in enumerate(block) if s is node)
            for stop in range(start + 2, len(block)):
                last = block[stop]
                if isinstance(last, ast.If) and _waits(context, last, main=True):
                    yield Turn(node, tuple(block[start + 1 : stop]), last)
                    break


def run_in_turns(context: Context) -> set[ast.AST]:
    """The functions that the main process runs before the others do: a collective in them would never end."""
    pending = [node for turn in turns(context) for statement in turn.work for node in ast.walk(statement)]
    found: set[ast.AST] = set()
    while pending:
        node = pending.pop()
        for function in context.facts.callees.get(node, ()) if isinstance(node, ast.Call) else ():
            if function not in found:
                found.add(function)
                pending.extend(ast.walk(function))
    return found


def _waits(context: Context, node: ast.If, main: bool) -> bool:
    """Whether the main process (or the others) wait in `node`, and do nothing else."""
    meaning = ranks_of(context.facts).of(node.test)
    parts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else []
    meanings = [meaning, *(ranks_of(context.facts).of(p) for p in parts)]
    about = any(m is not None and m.kind is Kind.MAIN and m.negated is not main for m in meanings)
    barriers = len(node.body) == 1 and isinstance(node.body[0], ast.Expr) and context.facts.external.get(node.body[0].value) == "torch.distributed.barrier"  # type: ignore[arg-type]
    return about and barriers and not node.orelse


def edits(context: Context) -> Iterator[Edit]:
    for turn in turns(context):
        source = context.source(turn.wait)
        try:
            header = context.say("with @accelerator@.main_process_first():", turn.wait)
        except Unreachable:
            continue
        for guard in (turn.wait, turn.release):
            yield DeleteStatement(source=source, rule=ID, why=WHY, node=guard)
        yield WrapStatements(source=source, rule=ID, why=WHY, nodes=turn.work, header=header)


def prepared_after(context: Context, plan: Plan) -> None:
    """What the work makes is prepared when all processes are through."""
    ends = {id(s): turn.work[-1] for turn in turns(context) for s in turn.work}
    for index, edit in enumerate(plan.edits):
        if isinstance(edit, InsertAfter) and id(edit.node) in ends and edit.node is not ends[id(edit.node)]:
            plan.edits[index] = replace(edit, node=ends[id(edit.node)])
