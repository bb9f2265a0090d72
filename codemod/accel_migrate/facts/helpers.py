"""Helpers that take a batch's results in training and in evaluation: `accuracy(output, target)` with `.item()` inside.

Where such a helper makes its figure global for the training loop, an evaluation loop that gathers early would have it made
global twice. There the rows stay local until the helper.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.evaluation import end
from accel_migrate.facts.facts import Facts, Gather


def contradicted_gathers(facts: Facts) -> set[ast.stmt]:
    """Statements of the gathers after which a helper reduces what is global already."""
    reducing = {facts.function(c.value) for c in facts.conversions.values()}
    return {statement for statement, gather in facts.gathers.items() if gather.cut and _meets(facts, gather, reducing - {facts.function(statement)})}


def _meets(facts: Facts, gather: Gather, reducing: set[ast.AST]) -> bool:
    """Whether a call after `gather` hands what it gathered to one of the functions `reducing`."""
    function = facts.function(gather.statement)
    around = next((a for a in facts.ancestors(gather.statement) if isinstance(a, ast.For)), function)
    calls = [n for n in ast.walk(around) if isinstance(n, ast.Call) and _is_after(n, gather)]
    return any(_takes(call, gather) and _reached(facts, call) & reducing for call in calls)


def _is_after(call: ast.Call, gather: Gather) -> bool:
    if end(call) > end(gather.statement):
        return True
    return any(node in gather.hoisted for argument in call.args for node in ast.walk(argument))


def _takes(call: ast.Call, gather: Gather) -> bool:
    given = [n for argument in [*call.args, *(k.value for k in call.keywords)] for n in ast.walk(argument)]
    return any(
        n in gather.hoisted or (isinstance(n, ast.Name) and n.id in gather.names) or (isinstance(n, ast.expr) and ast.unparse(n) in gather.paths) for n in given
    )


def _reached(facts: Facts, call: ast.Call) -> set[ast.AST]:
    """The functions which `call` enters, directly or through others."""
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = list(facts.callees.get(call, ()))
    while pending:
        function = pending.pop()
        if function not in seen:
            seen.add(function)
            pending.extend(f for c in ast.walk(function) if isinstance(c, ast.Call) for f in facts.callees.get(c, ()))
    return seen
