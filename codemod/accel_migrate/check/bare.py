"""Whether an expression holds what `prepare` returned, or may hold the bare object that it was given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.values import Prepared

if TYPE_CHECKING:
    from accel_migrate.check.program import Program


def is_surely_prepared(program: Program, node: ast.AST) -> bool:
    """Whether `node` is surely what `prepare` returned."""
    marks = [v for v in program.facts.of(node) if isinstance(v, Prepared) and not _is_for_evaluation(v.call)]
    return bool(marks) and not _is_unwrapped_if_wrapped(program, node) and any(not _may_be_bare(program, node, v) for v in marks)


def _is_for_evaluation(call: ast.Call) -> bool:
    """`prepare_model(model, evaluation_mode=True)`, which puts no wrapper around the model."""
    return any(k.arg == "evaluation_mode" and isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)


def _is_unwrapped_if_wrapped(program: Program, node: ast.AST) -> bool:
    """Whether `node` is a variable like `bare = model.module if hasattr(model, "module") else model`."""
    key = program.flow.key(node) if isinstance(node, ast.Name) else None
    chosen = [v for v in program.flow.assigned.get(key, ()) if isinstance(v, ast.IfExp)] if key is not None else []
    return any(isinstance(n, ast.Attribute) and n.attr == "module" for v in chosen for n in (v.body, v.orelse))


def _may_be_bare(program: Program, node: ast.AST, mark: Prepared) -> bool:
    """Whether `node` is an attribute that is read above the `prepare`, or is read in another function that is only called above it."""
    facts = program.facts
    function, preparing = facts.function(node), facts.function(mark.call)
    if function is preparing:
        loops = (a for a in facts.ancestors(mark.call) if isinstance(a, ast.For | ast.While))
        return isinstance(node, ast.Attribute) and node.lineno < mark.call.lineno and not any(facts.inside(node, loop) for loop in loops)
    calls = facts.callers.get(function, {})  # type: ignore[call-overload]
    above = all(facts.function(call) is preparing and call.lineno < mark.call.lineno for call in calls)
    return bool(calls) and above and not _is_own_variable(program, node, function)


def _is_own_variable(program: Program, node: ast.AST, function: ast.AST) -> bool:
    """Whether `node` is a variable of `function` itself."""
    scopes = program.facts.scopes
    return isinstance(node, ast.Name) and program.facts.scope(node).owner(node.id) is scopes.get(function)  # type: ignore[call-overload]
