"""What a forward pass returns beside rows that are gathered, and that stays this process's own: an order, a list of lengths.

`scores, lengths, order = model(x, n)` of a model that sorts its rows: gathered scores do not go with the lengths of one process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Spread


def left_behind(facts: Facts, gather: Gather, read: Sequence[ast.expr]) -> Iterator[str]:
    """Variables that the statement of `gather` binds, that are among the expressions `read` afterwards, and that no gather makes global."""
    statement = gather.statement
    target = statement.targets[0] if isinstance(statement, ast.Assign) and not gather.hoisted else None
    names = {n.id for n in read if isinstance(n, ast.Name)} - set(gather.names)
    for place, element in enumerate(target.elts if isinstance(target, ast.Tuple) else ()):
        if isinstance(element, ast.Name) and element.id in names and _is_own(facts, element, statement.value, place):  # type: ignore[attr-defined]
            yield element.id


def _is_own(facts: Facts, name: ast.Name, value: ast.expr, place: int) -> bool:
    if facts.of(name):
        return spreads(facts.of(name)) == {Spread.MIXED}
    return any(_returns_converted(facts, function, place) for function in facts.callees.get(value, ()))  # type: ignore[call-overload]


def _returns_converted(facts: Facts, function: ast.AST, place: int) -> bool:
    """Whether the entry at `place` of what `function` returns is a variable that holds numbers taken out of its rows."""
    returned = [n.value.elts[place] for n in ast.walk(function) if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple) and place < len(n.value.elts)]
    names = {element.id for element in returned if isinstance(element, ast.Name)}
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in n.targets)]
    return any(inner in facts.conversions for store in stores for inner in ast.walk(store.value))
