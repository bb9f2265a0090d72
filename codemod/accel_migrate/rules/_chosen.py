"""Which variables are prepared: where several hold the same object, and what makes none."""

from __future__ import annotations

import ast
from dataclasses import replace

from accel_migrate.context import Context
from accel_migrate.facts.facts import Binding, Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.hand_made.turns import run_in_turns
from accel_migrate.rules._variables import Object, Variable

GIVE_BACK = {
    "eval",
    "train",
    "to",
    "cuda",
    "cpu",
    "float",
    "half",
    "double",
    "bfloat16",
    "requires_grad_",
    "apply",
    "share_memory",
}
"""Methods that return their object."""


def choose(context: Context, variables: list[Variable]) -> list[Variable]:
    """For each object the variables in which it is prepared: in the scope that has the accelerator, else the first.

    A function that the main process runs before the others comes last: they would wait for each other in it.

    What several scopes get from calls of one factory is another object in each of them, and prepared in each.
    """
    chosen: list[Variable] = []
    alone = run_in_turns(context)
    ranked = sorted(variables, key=lambda v: (v.scope.node in alone, not _has_accelerator(context, v), v.order))
    owner: dict[Object, Variable] = {}
    for variable in ranked:
        others = [owner[made] for made in variable.made if made in owner and owner[made].scope is not variable.scope]
        if others and not all(_made_apart(context, variable, other) for other in others):
            continue
        if _is_alias(context, variable, chosen):
            continue
        for made in variable.made:
            owner.setdefault(made, variable)
        chosen.append(variable)
    return sorted(chosen, key=lambda v: v.order)


def is_read(variable: Variable) -> bool:
    """Whether a local variable is used at all: `_, _, words = data()` has no use for the loaders."""
    target = variable.bindings[-1].target
    if not isinstance(target, ast.Name) or variable.scope.parent is None:
        return True
    return any(
        isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load)
        for n in ast.walk(variable.scope.node)
    )


def _made_apart(context: Context, one: Variable, other: Variable) -> bool:
    """Whether both come from calls of the same function of the program, neither of them through the other."""
    makers = [_makers(context, variable) for variable in (one, other)]
    through = one.scope.node in makers[1] or other.scope.node in makers[0]
    return not through and bool(makers[0] & makers[1])


def _makers(context: Context, variable: Variable) -> set[ast.AST]:
    """The functions, not classes, whose results `variable` holds."""
    facts = context.facts
    values = [getattr(b.statement, "value", None) for b in variable.bindings]
    called = (function for value in values if isinstance(value, ast.Call) for function in facts.callees.get(value, ()))
    return {function for function in called if facts.scopes[function].enclosing_class is None}


def _has_accelerator(context: Context, variable: Variable) -> bool:
    home = context.home
    if home.attribute:
        return (
            variable.scope.enclosing_class is not None and variable.scope.enclosing_class is home.scope.enclosing_class
        )
    scope: Scope | None = variable.scope
    while scope is not None:
        if scope is home.scope:
            return True
        scope = scope.parent
    return False


def _is_alias(context: Context, variable: Variable, chosen: list[Variable]) -> bool:
    """Whether `variable` is another name for an object that is prepared already (`best = model`, a deep copy)."""
    others = [v for v in chosen if v.scope is variable.scope and v.made & variable.made]
    if not others:
        return False
    value = getattr(variable.bindings[0].statement, "value", None)
    target = getattr(variable.bindings[0].statement, "targets", [None])[0]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        value = next((v for t, v in zip(target.elts, value.elts, strict=True) if ast.unparse(t) == variable.text), None)
    elif isinstance(target, ast.Tuple):
        return False
    if value is None:
        return False
    names = {ast.unparse(n) for n in ast.walk(value) if isinstance(n, ast.Name | ast.Attribute)}
    return any(other.text in names for other in others)


def first_made(bindings: list[Binding]) -> list[Binding]:
    """Without `model = model.eval()` in a loop: it makes nothing, and the model was prepared before the loop."""
    made = [b for b in bindings if not (b.loops and _is_itself(b))]
    return made or bindings


def by_loops(facts: Facts, variable: Variable) -> list[Variable]:
    """`variable` as it is made, and as a condition in a loop below makes it anew: `if step > 100: optimizer = SGD(...)`."""
    first = [b for b in variable.bindings if b.loops == variable.bindings[0].loops]
    anew = [b for b in variable.bindings if b not in first]
    if not anew or not all(isinstance(facts.parents[b.statement], ast.If) for b in anew):
        return [variable]
    return [replace(variable, bindings=first), *(replace(variable, bindings=[b], anew=True) for b in anew)]


def _is_itself(binding: Binding) -> bool:
    """Whether what is bound is what a method of the variable itself gives back."""
    value = getattr(binding.statement, "value", None)
    method = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in GIVE_BACK
    return method and ast.unparse(value.func.value) == ast.unparse(binding.target)  # type: ignore[union-attr]


def arrives(context: Context, site: ast.AST, variables: list[Variable], depth: int = 3) -> bool:
    """Whether what is made at `site` is returned into one of `variables`, one of so many that may be that not all are kept in mind."""
    facts = context.facts
    calls = set(facts.callers.get(facts.function(site), ()))  # type: ignore[call-overload]
    bound = {getattr(b.statement, "value", None) for v in variables for b in v.bindings}
    return bool(calls) and all(
        call in bound or (depth > 0 and arrives(context, call, variables, depth - 1)) for call in calls
    )
