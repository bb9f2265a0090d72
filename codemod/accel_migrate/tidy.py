"""What other edits leave empty goes too: `if use_cuda:` around nothing but moves to the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.edits import DeleteStatement
from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.plan import Plan

_ASKING = catalog.AVAILABILITY | {"isinstance", "hasattr", "len", "callable", "str", "int", "bool"}
_OF_TEXT = {"startswith", "endswith", "lower", "upper", "strip"}


def emptied_branches(plan: Plan) -> Iterator[DeleteStatement]:
    """Deletions of the `if`s of which every statement is deleted, and whose test does nothing."""
    deleted: dict[ast.AST, DeleteStatement] = {e.node: e for e in plan.edits if isinstance(e, DeleteStatement)}
    pending = [plan.facts.parents[node] for node in deleted]
    while pending:
        node = pending.pop()
        if not isinstance(node, ast.If) or node in deleted or not all(s in deleted for s in [*node.body, *node.orelse]):
            continue
        if not _does_nothing(plan.facts, node.test):
            continue
        reason = deleted[node.body[0]]
        deleted[node] = DeleteStatement(source=reason.source, rule=reason.rule, why=reason.why, node=node)
        pending.append(plan.facts.parents[node])
    for node, deletion in deleted.items():
        if deletion not in plan.edits and not (_is_elif(plan.facts, node) and plan.facts.parents[node] in deleted):
            yield deletion


def _is_elif(facts: Facts, node: ast.If) -> bool:
    parent = facts.parents[node]
    return isinstance(parent, ast.If) and parent.orelse == [node] and parent.col_offset == node.col_offset


def _does_nothing(facts: Facts, test: ast.expr) -> bool:
    """Whether nothing happens when `test` is evaluated."""
    calls = [n for n in ast.walk(test) if isinstance(n, ast.Call)]
    return all(facts.external.get(c) in _ASKING or _asks_text(c) for c in calls) and not any(
        isinstance(n, ast.NamedExpr) for n in ast.walk(test)
    )


def _asks_text(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _OF_TEXT
