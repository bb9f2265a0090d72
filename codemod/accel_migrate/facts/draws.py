"""Batches drawn by hand to look at: `images, labels = next(iter(loader))` outside of any loop.

Every process gets the whole batch there, right after it is drawn, unless a backward pass uses it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread, locals_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)


def plan_draws(facts: Facts) -> dict[ast.stmt, Gather]:
    """One `Gather` for each assignment of a batch that is only looked at."""
    plans: dict[ast.stmt, Gather] = {}
    for call in _draws(facts):
        statement = facts.statement(call)
        names = _targets(facts, statement) if isinstance(statement, ast.Assign) and statement.value is call else []
        if names and not _loops(facts, statement) and not _feeds_training(facts, statement, names):
            plans[statement] = Gather(statement, facts.scope(statement), tuple(names), cut=not _is_early(facts, statement))
    return plans


def _draws(facts: Facts) -> Iterator[ast.Call]:
    yield from (call for call, name in facts.external.items() if name == "next")
    yield from (call for call, (_, name) in facts.methods.items() if name in {"next", "__next__"})


def _targets(facts: Facts, statement: ast.Assign) -> list[str]:
    target = statement.targets[0]
    elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    return [e.id for e in elements if isinstance(e, ast.Name) and Spread.SHARD in spreads(facts.of(e)) and _is_read(facts, statement, e.id)]


def _is_read(facts: Facts, statement: ast.stmt, name: str) -> bool:
    return any(True for _ in _reads(facts, statement, name))


def _reads(facts: Facts, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """Reads of `name` after `statement`, in its function, until it is bound anew."""
    nodes = [n for n in ast.walk(facts.function(statement)) if isinstance(n, ast.Name) and n.id == name and n.lineno > (statement.end_lineno or 0)]
    limit = min((n.lineno for n in nodes if isinstance(n.ctx, ast.Store)), default=None)
    return (n for n in nodes if isinstance(n.ctx, ast.Load) and (limit is None or n.lineno <= limit))


def _loops(facts: Facts, node: ast.AST) -> list[ast.AST]:
    """The loops of its function around `node`."""
    found: list[ast.AST] = []
    for ancestor in facts.ancestors(node):
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            break
        if isinstance(ancestor, LOOPS):
            found.append(ancestor)
    return found


def _feeds_training(facts: Facts, statement: ast.stmt, names: list[str]) -> bool:
    """Whether one of `names` is read where a backward pass runs: in the same loop, before it in a straight line, or by a call that trains."""
    function = facts.function(statement)
    if any(statement.value in v.taken for b in facts.backwards.values() for v in locals_of(b.values)):  # type: ignore[attr-defined]
        return True
    backwards = [b.call for b in facts.backwards.values()]
    here = [call for call in backwards if facts.function(call) is function]
    trainers = {facts.function(call) for call in backwards}
    for read in (r for name in names for r in _reads(facts, statement, name)):
        around = _loops(facts, read)
        if any(facts.inside(call, loop) for call in here for loop in around):
            return True
        if any(not _loops(facts, call) and call.lineno >= read.lineno for call in here):
            return True
        calls = [a for a in facts.ancestors(read) if isinstance(a, ast.Call)]
        if any(_reaches(facts, call, trainers) for call in calls):
            return True
    return False


def _reaches(facts: Facts, call: ast.Call, functions: set[ast.AST]) -> bool:
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = list(facts.callees.get(call, ()))
    while pending:
        function = pending.pop()
        if function in functions:
            return True
        if function not in seen:
            seen.add(function)
            pending.extend(f for c in ast.walk(function) if isinstance(c, ast.Call) for f in facts.callees.get(c, ()))
    return False


def _is_early(facts: Facts, statement: ast.stmt) -> bool:
    """Whether the loader is not prepared yet: what is trained is made only further down in the same function."""
    scope = facts.scope(statement)
    return any(b.scope is scope and b.statement.lineno > statement.lineno and any(facts.role(v) is Role.OPTIMIZER for v in b.values) for b in facts.bindings)
