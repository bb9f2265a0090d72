"""What follows a gather: the code that sees the global batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.values import locals_of


def later(facts: Facts, gather: Gather) -> Iterator[ast.expr]:
    """Expressions that are evaluated after `gather`, in the same loop or function."""
    border = gather.statement
    begin = (border.lineno, border.col_offset) if gather.hoisted else (border.end_lineno, border.end_col_offset)
    moved = {id(n) for call in gather.hoisted for n in ast.walk(call)}
    for statement in _around(facts, gather).body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and (node.lineno, node.col_offset) >= begin and id(node) not in moved:
                yield node


def is_hosted(facts: Facts, gather: Gather, name: str) -> bool:
    """Whether the loop (or, outside of any, the function) never moves `name` (or what it is unpacked from) to the device."""
    around = next((a for a in facts.ancestors(gather.statement) if isinstance(a, ast.For)), gather.scope.node)
    stores = [n for n in ast.walk(around) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
    found = [v for store in stores for v in locals_of(facts.of(store))]
    return bool(found) and all(v.host for v in found)


def _around(facts: Facts, gather: Gather) -> ast.For | ast.FunctionDef | ast.Module:
    function = facts.function(gather.statement)
    return next((a for a in facts.ancestors(gather.statement) if isinstance(a, ast.For)), function)  # type: ignore[return-value]
