"""The calls at which a function gets one more argument, through functions that hand their `**kwargs` on to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Function


def givers(facts: Facts, function: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls that give `function` its arguments: its own, or those of a function that hands on what it gets."""
    for call in facts.callers.get(function, {}):
        through = handed_on(facts, call)
        if through is None:
            yield call
        else:
            yield from givers(facts, through)


def handed_on(facts: Facts, call: ast.Call) -> ast.FunctionDef | None:
    """The function around `call` whose own `**kwargs` stand in it (`super().__init__(*args, **kwargs)`)."""
    function = facts.function(call)
    if not isinstance(function, ast.FunctionDef) or function.args.kwarg is None or function in facts.callees.get(call, ()):
        return None
    given = {k.value.id for k in call.keywords if k.arg is None and isinstance(k.value, ast.Name)}
    return function if function.args.kwarg.arg in given else None


def _hands_on(facts: Facts, function: ast.FunctionDef) -> bool:
    """Whether `function` gives its own `**kwargs` to another: what it kept of them would be missing there."""
    return any(isinstance(node, ast.Call) and handed_on(facts, node) is function for node in ast.walk(function))


def fills_default(facts: Facts, function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether `call` gives a parameter with a default by position, so that nothing can be put ahead of it."""
    required = len(function.args.posonlyargs) + len(function.args.args) - len(function.args.defaults)
    bound = 1 if facts.scopes[function].enclosing_class is not None else 0
    return bool(function.args.defaults) and len(call.args) + bound > required


def why_not_all_known(facts: Facts, function: ast.FunctionDef, seen: tuple[ast.AST, ...] = ()) -> str:
    """The use of `function` that is no plain call, or what else keeps it from one more argument; empty where nothing does."""
    name = f"`{function.name}`"
    callers = facts.callers.get(function, {})
    if not callers:
        return f"nothing is seen to call {name}"
    if function in facts.called_back:
        return f"{name} is not only called, but handed on as a value{_place(facts, _as_value(facts, function))}"
    if function.args.vararg is not None and not seen and _hands_on(facts, function):
        return f"{name} hands on `*{function.args.vararg.arg}` and `**{function.args.kwarg.arg}`"  # type: ignore[union-attr]
    for call in callers:
        through = handed_on(facts, call)
        if through is not None:
            problem = "it calls itself" if through in seen else why_not_all_known(facts, through, (*seen, function))
            if problem:
                return problem
        elif any(isinstance(a, ast.Starred) for a in call.args):
            return f"{name} is called with `{ast.unparse(next(a for a in call.args if isinstance(a, ast.Starred)))}`{_place(facts, call)}"
    return ""


def _as_value(facts: Facts, function: ast.FunctionDef) -> ast.expr | None:
    """Where `function` is named without being called."""
    for _, node in facts.nodes(ast.Name, ast.Attribute):
        if isinstance(node.ctx, ast.Load) and any(isinstance(v, Function) and v.node is function for v in facts.of(node)):  # type: ignore[attr-defined]
            parent = facts.parents[node]
            if not (isinstance(parent, ast.Call) and parent.func is node):
                return node  # type: ignore[return-value]
    return None


def _place(facts: Facts, node: ast.expr | None) -> str:
    return "" if node is None else f" ({facts.source(node).where(node.lineno)})"
