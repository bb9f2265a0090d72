"""What becomes of rows that would be gathered and then meet rows of this process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts.facts import Conversion, Gather
from accel_migrate.facts.gathered import later
from accel_migrate.quoting import quote


def meeting(context: Context, conversion: Conversion, rule: str, why: str, taken: dict[tuple[int, str], str]) -> tuple[bool, list[Edit | Finding]]:
    """Whether the rows of `conversion` must stay local, and what is to be done or said so that they meet their like."""
    if not context.facts.backwards or conversion.how not in {"array", "collect"}:
        return False, []
    found = list(context.meetings.of(conversion.value))
    if not found:
        return False, []
    if all(isinstance(place, ast.Call) and _is_zip(place) for place, _ in found):
        edits = [edit for place, others in found for other in others for edit in _gathered_too(context, conversion, place, other, rule, why, taken)]
        return any(isinstance(e, Finding) for e in edits), edits
    if context.meetings.stay_right(conversion.value):
        return True, []
    return True, [_finding(context, conversion, *found[0])]


def kept_for_training(context: Context, gather: Gather) -> Iterator[Finding]:
    """What an evaluation loop gathers and keeps, and a training loop reads beside its own rows."""
    names = {*gather.names, *gather.paths.values()}
    read = [n for n in later(context.facts, gather) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load)]
    for rows in (*gather.hoisted, *read):
        for place, others in context.meetings.of(rows):
            around = [context.facts.loops[a] for a in context.facts.ancestors(place) if a in context.facts.loops]
            if any(loop.trains and not context.facts.inside(gather.statement, loop.node) for loop in around):
                node = gather.statement
                yield Finding(
                    source=context.source(node), node=node, rule="kept-rows", severity=Severity.ERROR,
                    message=f"`{quote(rows)}` is gathered here and comes back to rows of this process (`{quote(others[0], 40)}`, line {place.lineno})",
                    advice="take out the gather where each process needs its own rows again, or gather both there",
                )  # fmt: skip
                return


def _is_zip(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "zip"


def _gathered_too(
    context: Context, conversion: Conversion, place: ast.expr, other: ast.expr, rule: str, why: str, taken: dict[tuple[int, str], str]
) -> Iterator[Edit | Finding]:
    """`zip(gathered names, scores)`: what stands beside the rows is gathered where both are read."""
    facts = context.facts
    conditions = [a for a in facts.ancestors(place) if isinstance(a, ast.If | ast.For | ast.While | ast.FunctionDef) and not facts.inside(place, _head(a))]
    if (id(other), "zip") in taken:
        return
    taken[id(other), "zip"] = ""
    try:
        if any(not facts.inside(conversion.value, a) for a in conditions):
            raise Unreachable
        yield context.replace(rule, other, context.say("@accelerator@.gather_for_metrics({x})", other), why, x=other)
    except Unreachable:
        yield _finding(context, conversion, place, [other])


def _head(node: ast.AST) -> ast.AST:
    return node.iter if isinstance(node, ast.For) else node.test if isinstance(node, ast.If | ast.While) else node.args  # type: ignore[attr-defined]


def _finding(context: Context, conversion: Conversion, place: ast.AST, others: list[ast.expr]) -> Finding:
    node = conversion.value
    return Finding(
        source=context.source(node), node=node, rule="kept-rows", severity=Severity.ERROR,
        message=f"`{quote(node)}` comes back to rows of this process (`{quote(others[0], 40)}`, line {place.lineno}): "  # type: ignore[attr-defined]
        "it is left as it is, so what is kept, sorted or drawn here is that of each process alone",
        advice="gather both (or neither) and use the rows of the whole batch there; a buffer that is drawn from at random holds other rows on each process",
    )  # fmt: skip
