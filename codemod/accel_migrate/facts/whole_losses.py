"""Where a loss that looks at the whole batch could have it: right after the forward passes that lead to it.

Each backward pass has at most one place: behind the last forward pass before it, in the function in which the loss is
computed. From there on everything read of the batch and of the outputs is that of all processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accel_migrate.facts.evaluation import Around, end, gather_after, start
from accel_migrate.facts.facts import Backward, Facts, Gather
from accel_migrate.facts.values import Role, Spread, locals_of

DEEPEST = 8
"""Functions within functions that are searched for the forward pass."""


def places(facts: Facts) -> Iterator[Gather]:
    """The places to gather for the losses that have one."""
    for backward in facts.backwards.values():
        if backward.with_loader and backward.scope is not None:
            gather = _place(facts, backward)
            if gather is not None:
                yield replace(gather, backward=backward.call)


def region(facts: Facts, gather: Gather) -> set[ast.AST]:
    """What is computed from the gathered rows: what follows the gather, up to the backward pass, and the functions called there."""
    around = _around(facts, gather.statement)
    after = start(gather.statement) if gather.hoisted else end(gather.statement)
    last = end(gather.backward) if gather.backward is not None and facts.inside(gather.backward, around) else end(around)
    found: set[ast.AST] = set(ast.walk(gather.backward)) if gather.backward is not None else set()
    pending: list[ast.AST] = [n for s in around.body for n in ast.walk(s) if hasattr(n, "lineno") and after <= start(n) <= last]
    while pending:
        node = pending.pop()
        if node in found:
            continue
        found.add(node)
        if isinstance(node, ast.Call) and node not in gather.hoisted:
            pending.extend(inner for function in facts.callees.get(node, ()) for inner in ast.walk(function))
    return found


def _place(facts: Facts, backward: Backward) -> Gather | None:
    around, scope, until = _around(facts, backward.call), backward.scope, start(backward.call)
    for _ in range(DEEPEST):
        if not isinstance(around, ast.For | ast.While | ast.FunctionDef):
            return None
        calls = [c for c in _calls(around) if end(c) <= until and _runs_model(facts, c)] or [c for c in _inner(backward, facts) if _runs_model(facts, c)]
        if not calls:
            return None
        last = max(calls, key=end)
        if not _always_before(facts, facts.statement(last), backward.call, around):
            return None
        if _gives_rows(facts, last):
            gather = gather_after(facts, scope, around, calls, inside=True)
            return None if gather is None or _runs_again(facts, around, gather, backward.call) else gather
        inner = [f for f in facts.callees.get(last, ()) if isinstance(f, ast.FunctionDef)]
        if len(inner) != 1 or not _returns_one_value(inner[0]) or (last in facts.forwards and not _only_for_batches(facts, inner[0])):
            return None
        around, scope, until = inner[0], facts.scopes[inner[0]], end(inner[0])
    return None


def _inner(backward: Backward, facts: Facts) -> list[ast.Call]:
    """Calls within the expression whose `backward` is called: `criterion(model(x), y).backward()`."""
    return [n for n in ast.walk(backward.call) if isinstance(n, ast.Call) and n is not backward.call]


def _around(facts: Facts, node: ast.AST) -> Around:
    return next(a for a in facts.ancestors(node) if isinstance(a, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module))  # type: ignore[return-value]


def _calls(around: Around) -> Iterator[ast.Call]:
    for statement in around.body:
        yield from (n for n in ast.walk(statement) if isinstance(n, ast.Call))


def _gives_rows(facts: Facts, call: ast.Call) -> bool:
    """Whether `call` returns rows, or something with rows in it; a criterion that is a module returns one number."""
    statement = facts.statement(call)
    unpacked = [n for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)] if isinstance(statement, ast.Assign) and statement.value is call else []
    return any(v.batch or v.output or v.spread is Spread.SHARD for node in (call, *unpacked) for v in locals_of(facts.of(node)))


def _returns_one_value(function: ast.FunctionDef) -> bool:
    """Whether `function` returns no more than the loss: outputs beside it would be whole where rows of a process are expected."""
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    return not any(isinstance(value, ast.Tuple | ast.List | ast.Dict) for value in returned)


def _only_for_batches(facts: Facts, forward: ast.FunctionDef) -> bool:
    """Whether a model's `forward` runs only on batches of loaders: rows that every process has would be gathered from all."""
    calls = [call for call, functions in facts.callees.items() if forward in functions]
    return bool(calls) and all(call in facts.forwards and None not in facts.forwards[call].contexts for call in calls)


def _runs_model(facts: Facts, call: ast.Call) -> bool:
    """Whether `call` is a forward pass or leads to one."""
    seen: set[ast.AST] = set()
    pending: list[ast.Call] = [call]
    while pending:
        inner = pending.pop()
        if (inner in facts.forwards or facts.has_role(inner.func, Role.MODEL)) and _gives_rows(facts, inner):
            return True
        for function in facts.callees.get(inner, ()):
            if function not in seen:
                seen.add(function)
                pending.extend(n for n in ast.walk(function) if isinstance(n, ast.Call))
    return False


def _always_before(facts: Facts, statement: ast.stmt, backward: ast.Call, around: Around) -> bool:
    """Whether `statement` runs whenever `around` gets to the backward pass (or, in another function, to its end)."""
    for ancestor in facts.ancestors(statement):
        if ancestor is around:
            return True
        if not isinstance(ancestor, ast.With) and ancestor not in facts.loops and not facts.inside(backward, ancestor):
            return False
    return True


def _runs_again(facts: Facts, around: Around, gather: Gather, backward: ast.Call) -> bool:
    """Whether another forward pass reads what would be gathered: it wants the rows of its process."""
    after = start(gather.statement) if gather.hoisted else end(gather.statement)
    roots = {*gather.names, *(path.partition("[")[0].partition(".")[0] for path in gather.paths)}
    later = [c for c in _calls(around) if start(c) >= after and c not in gather.hoisted and _runs_model(facts, c)]
    return any(isinstance(n, ast.Name) and n.id in roots for c in later if c is not backward for n in ast.walk(c))
