"""A `DistributedSampler` stays, so that every process sees the samples it saw.

It asks the process group who it is; on one process there is none, so the accelerator tells it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import AddArgument, Edit
from accel_migrate.facts import catalog
from accel_migrate.facts.distributed import ranks_of
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.values import Ref
from accel_migrate.hand_made import ID

WHY = "one process has no process group to ask"
ARGUMENTS = {"num_replicas": "num_processes", "rank": "process_index"}


def edits(context: Context) -> Iterator[Edit]:
    for call in context.calls_of(*catalog.DISTRIBUTED_SAMPLERS):
        if among_several(context, call) or _may_be_another(context, call):
            continue
        given = {k.arg for k in call.keywords} | set(list(ARGUMENTS)[: max(0, len(call.args) - 1)])
        for name, attribute in ARGUMENTS.items():
            if name not in given:
                text, imports = context.say_passed(f"@accelerator@.{attribute}", call, ID)
                yield AddArgument(source=context.source(call), rule=ID, why=WHY, node=call, value=text, keyword=name)
                yield from imports


def _may_be_another(context: Context, call: ast.Call) -> bool:
    """`kind = RandomSampler if alone else DistributedSampler`: another kind would not take the arguments, and this one has a group."""
    known = {v.name for v in context.facts.of(call.func) if isinstance(v, Ref)}
    return not known <= set(catalog.DISTRIBUTED_SAMPLERS)


def among_several(context: Context, node: ast.AST) -> bool:
    """Whether `node` runs only where there are several processes."""
    ranks = ranks_of(context.facts)
    child = node
    for ancestor in context.facts.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test:
            other = ancestor.orelse if isinstance(ancestor.orelse, list) else [ancestor.orelse]
            meaning = ranks.of(ancestor.test)
            if meaning is not None and meaning.kind is Kind.FLAG and meaning.negated is (child in other):
                return True
        if isinstance(ancestor, ast.BoolOp) and _after_question(context, ancestor, child):
            return True
        if isinstance(child, ast.stmt) and not isinstance(ancestor, ast.Module) and _follows_a_return(context, child):
            return True
        if isinstance(ancestor, ast.FunctionDef):
            return False
        child = ancestor
    return False


def _after_question(context: Context, node: ast.BoolOp, operand: ast.AST) -> bool:
    """`dist.is_initialized() and operand`, `not dist.is_initialized() or operand`."""
    ranks = ranks_of(context.facts)
    before = node.values[: next(i for i, v in enumerate(node.values) if v is operand)]
    meanings = [ranks.of(value) for value in before]
    return any(m is not None and m.kind is Kind.FLAG and m.negated is isinstance(node.op, ast.Or) for m in meanings)


def _follows_a_return(context: Context, statement: ast.stmt) -> bool:
    """`if not dist.is_initialized(): return` above `statement`."""
    ranks = ranks_of(context.facts)
    for other in context.facts.block(statement):
        if other is statement:
            return False
        if isinstance(other, ast.If) and other.body and isinstance(other.body[-1], ast.Return):
            meaning = ranks.of(other.test)
            if meaning is not None and meaning.kind is Kind.FLAG and meaning.negated:
                return True
    return False
