"""A state is loaded into what is prepared: where the script loads its checkpoint before, that goes below."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, Edit, Finding, InsertAfter
from accel_migrate.facts.facts import Facts
from accel_migrate.plan import Plan
from accel_migrate.states.loaded import Loaded

_DEPTH = 4


def below_preparation(context: Context, plan: Plan, loaded: Loaded, rule: str, why: str) -> Iterator[Edit | Finding]:
    """What moves the block that loads below the last `prepare` in its function, or a finding where that is not safe."""
    facts = context.facts
    chain = _chain(facts, loaded.statements[0])
    anchors = [e.node for e in plan.edits if isinstance(e, InsertAfter) and e.rule == "prepare"]
    late = []
    for anchor in anchors:
        for function, node in _chain(facts, anchor).items():
            if function in chain:
                late += [node] if node.lineno > chain[function].lineno else []
                break
    if not late:
        return
    last = max(late, key=lambda node: node.lineno)
    function = facts.function(last)
    group = _group(facts, loaded, chain[function], facts.block(last))
    problem = _hindrance(context, group, last) if group else "it stands in another block"
    if problem:
        message = f"the state is loaded before everything is prepared, and cannot be moved: {problem}"
        advice = "load it after accelerator.prepare"
        yield Finding(
            source=context.source(loaded.calls[0]), node=loaded.calls[0], rule=rule, message=message, advice=advice
        )
        return
    yield from _moved(context, plan, group, last, rule, why)


def _moved(context: Context, plan: Plan, group: list[ast.stmt], last: ast.stmt, rule: str, why: str) -> Iterator[Edit]:
    source = context.source(last)
    gone = {e.node for e in plan.edits if isinstance(e, DeleteStatement)}
    lines, parts = [], {}
    for index, statement in enumerate(group):
        new = next(
            (e for e in plan.edits if isinstance(e, InsertAfter) and e.node is statement and e.rule == rule), None
        )
        if new is not None:
            plan.edits.remove(new)
            lines.append(new.template)
            parts |= new.parts
        elif statement not in gone:
            lines.append(f"{{s{index}}}")
            parts[f"s{index}"] = statement
        if statement not in gone:
            yield DeleteStatement(source=source, rule=rule, why=why, node=statement)
    yield InsertAfter(source=source, rule=rule, why=why, node=last, template="\n".join(lines), parts=parts)


def _chain(facts: Facts, statement: ast.stmt) -> dict[ast.AST, ast.stmt]:
    """Function -> the statement in it that leads to `statement`: its own first, then those of the only callers."""
    found: dict[ast.AST, ast.stmt] = {}
    for _ in range(_DEPTH):
        function = facts.function(statement)
        found[function] = statement
        calls = list(facts.callers.get(function, {}))  # type: ignore[call-overload]
        if len(calls) != 1:
            break
        statement = facts.statement(calls[0])
    return found


def _group(facts: Facts, loaded: Loaded, statement: ast.stmt, block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of `block` that hold the loading: one that guards it, or from the load to the last use."""
    first = _index(facts, block, statement)
    if first is None:
        return []
    if block[first] not in loaded.statements:
        return [block[first]]
    uses = [*(r.statement for r in loaded.restored), *(r.name for r in loaded.reads), *loaded.dropped]
    places = [place for use in uses if (place := _index(facts, block, use)) is not None]
    return block[first : max([first, *places]) + 1]


def _index(facts: Facts, block: list[ast.stmt], node: ast.AST) -> int | None:
    return next((i for i, s in enumerate(block) if facts.inside(node, s)), None)


def _hindrance(context: Context, group: list[ast.stmt], last: ast.stmt) -> str:
    """What between `group` and `last` reads something that `group` sets; empty if nothing does."""
    block = context.facts.block(last)
    between = block[block.index(group[-1]) + 1 : block.index(last) + 1]
    names = {
        ast.unparse(n)
        for s in group
        for n in ast.walk(s)
        if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    for statement in between:
        for node in _with_callees(context.facts, statement):
            if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in names:
                return f"line {node.lineno} needs `{ast.unparse(node)}` before"
    return ""


def _with_callees(facts: Facts, statement: ast.stmt) -> Iterator[ast.AST]:
    """What stands in `statement`, and in the functions that it calls."""
    for node in ast.walk(statement):
        yield node
        for function in facts.callees.get(node, ()) if isinstance(node, ast.Call) else ():
            yield from ast.walk(function)
