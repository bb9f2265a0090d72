"""What `torch.save({...}, path)` puts into the training checkpoints of a script."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.states.problem import Unconvertible

BY_ITSELF = {Role.OPTIMIZER, Role.SCHEDULER, Role.SCALER}
"""Roles of objects whose state is saved without being registered, beside prepared models."""
_DEPTH = 3


@dataclass(eq=False)
class Entry:
    """`key: value` in the dictionary; `object` is `x` where the value is `x.state_dict()`."""

    key: ast.expr
    value: ast.expr
    object: ast.expr | None

    @property
    def name(self) -> str:
        return self.key.value  # type: ignore[attr-defined]


@dataclass(eq=False)
class Saved:
    """One call that saves a training checkpoint.

    Attributes:
        held: the variable or parameter that holds the dictionary; None where it stands in the call.
        written: each dictionary that may arrive, with its entries.
    """

    call: ast.Call
    path: ast.expr
    held: ast.Name | None
    written: dict[ast.Dict, list[Entry]] = field(default_factory=dict)

    def entries(self) -> Iterator[Entry]:
        for entries in self.written.values():
            yield from entries


def saved_checkpoints(context: Context, read: set[str]) -> list[Saved]:
    """The calls that save more than weights: the state of an optimizer and its like, or beside a model something that is `read` back.

    Raises:
        Unconvertible: what one of them writes is not to be seen.
    """
    found = []
    for call in context.calls_of("torch.save"):
        if context.is_unused(call) or not call.args:
            continue
        dicts = list(_dicts(context, call.args[0], _DEPTH))
        written = {d: _entries(context, d) for d in dicts}
        if not any(_is_checkpoint(context, entries, read) for entries in written.values()):
            continue
        path = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "f"), None)
        if path is None or not isinstance(context.facts.statement(call), ast.Expr):
            raise Unconvertible(
                call, "the call that saves is no statement of its own", "write it as one: torch.save(state, path)"
            )
        held = call.args[0] if isinstance(call.args[0], ast.Name) else None
        found.append(Saved(call, path, held, written))
    return found


def sites_of(context: Context, node: ast.expr) -> set[ast.AST]:
    """Where the objects that `node` may be are made."""
    return {v.site for v in context.facts.of(node) if isinstance(v, Made | Instance)}


def is_saved_by_itself(context: Context, node: ast.expr) -> bool:
    """Whether `save_state` saves the object `node` without being told: what is prepared, and the gradient scaler."""
    from accel_migrate.rules.prepare import prepared_sites

    prepared = {site for site, _ in prepared_sites(context)}
    roles = {context.facts.role(v) for v in context.facts.of(node)}
    return Role.SCALER in roles or (bool(roles & {Role.MODEL, *BY_ITSELF}) and bool(sites_of(context, node) & prepared))


def state_of(context: Context, value: ast.expr) -> ast.expr | None:
    """`x`, where `value` is `x.state_dict()`: as it stands, in both branches of a choice, or by way of a variable."""
    if isinstance(value, ast.IfExp):
        branches = [state_of(context, value.body), state_of(context, value.orelse)]
        if all(branches):
            return branches[0]
        return next((b for b in branches if b is not None and context.facts.has_role(b, Role.SCALER)), None)
    if isinstance(value, ast.Name):
        sources = [state_of(context, a.value) for a in assignments(context, value)]
        return sources[0] if sources and all(sources) else None
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "state_dict"
        and not value.args
    ):
        return value.func.value
    return None


def assignments(context: Context, name: ast.Name) -> list[ast.Assign]:
    """The statements that give the variable `name` a value in its own function."""
    owner = context.facts.scope(name).owner(name.id)
    if owner is None:
        return []
    return [
        n
        for n in ast.walk(owner.node)
        if isinstance(n, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name.id for t in n.targets)
        and context.facts.scope(n.targets[0]) is owner
    ]


def _dicts(context: Context, value: ast.expr, depth: int) -> Iterator[ast.Dict]:
    """The dictionaries that `value` may be, through variables and parameters."""
    if isinstance(value, ast.Dict):
        yield value
    elif isinstance(value, ast.Name) and depth:
        made = assignments(context, value)
        for assignment in made:
            yield from _dicts(context, assignment.value, depth - 1)
        function = context.facts.function(value)
        if not made and isinstance(function, ast.FunctionDef):
            for argument in arguments_for(context, function, value.id):
                yield from _dicts(context, argument, depth - 1)


def arguments_for(context: Context, function: ast.FunctionDef, parameter: str) -> Iterator[ast.expr]:
    """What the calls of `function` pass for `parameter`."""
    names = [a.arg for a in function.args.args]
    if parameter not in names:
        return
    for call in context.facts.callers.get(function, {}):
        argument = context.accelerator.argument(call, function, names.index(parameter))
        if argument is not None:
            yield argument


def _entries(context: Context, node: ast.Dict) -> list[Entry]:
    if not all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in node.keys):
        return []
    return [Entry(k, v, state_of(context, v)) for k, v in zip(node.keys, node.values, strict=True) if k is not None]


def _is_checkpoint(context: Context, entries: list[Entry], read: set[str]) -> bool:
    """Whether a training goes on from this."""
    objects = [e.object for e in entries if e.object is not None]
    if any(context.facts.role(v) in BY_ITSELF for node in objects for v in context.facts.of(node)):
        return True
    counted = any(e.object is None and e.name in read for e in entries)
    return counted and any(is_saved_by_itself(context, node) for node in objects)
