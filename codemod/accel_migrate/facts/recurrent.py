"""The state that recurrent layers start from, where a program makes it for a whole batch: `hidden = net.init_hidden(batch_size)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.values import Box, Local, Made, Role, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.evaluator import Evaluator
    from accel_migrate.facts.facts import Facts

STATE: Values = frozenset({Local(Spread.SHARD, axis=1, rank=3)})
"""Layers first, then the rows."""


def time_first_layer(facts: Facts) -> ast.Call | None:
    """A layer of the program that takes time as the first dimension, and the rows of a batch as the second."""
    for call, name in facts.external.items():
        batch_first = next((k.value for k in call.keywords if k.arg == "batch_first"), None)
        if name.rpartition(".")[2] in catalog.TIME_FIRST and not (isinstance(batch_first, ast.Constant) and batch_first.value is True):
            return call
    return None


def note_start(evaluator: Evaluator, args: Arguments) -> None:
    """Remembers what a recurrent layer gets for its state beside rows of a batch, as far as it is the same on all processes."""
    state, node = args.get(1, "hx"), args.node(1, "hx")
    if node is None or not args.positional or Spread.SHARD not in ops.spreads(args.positional[0]):
        return
    facts = evaluator.facts
    evaluator.machine.spoil()
    if not state:
        facts.starts.add(_parameter(facts, node) or node)
    for value in state:
        held = evaluator._all_elements(value) if isinstance(value, Box) else frozenset()
        if (isinstance(value, Box) and not locals_of(held)) or (isinstance(value, Made) and value.role is Role.OBJECT):
            facts.starts.add(value.site)


def _parameter(facts: Facts, node: ast.expr) -> ast.arg | None:
    """The parameter of its function that `node` reads."""
    function = facts.function(node)
    every = [*function.args.args, *function.args.kwonlyargs] if isinstance(function, ast.FunctionDef) else []
    return next((a for a in every if isinstance(node, ast.Name) and a.arg == node.id), None)


def started(evaluator: Evaluator, node: ast.expr, values: Values) -> Values:
    """The state that `node` makes, once each process keeps that of its rows: a pair of tensors, or one."""
    if not any(isinstance(v, Box) for v in values):
        return STATE
    box = evaluator.box(node)
    evaluator.machine.write_heap(box, "*", STATE)
    return frozenset({box})


def plan_states(facts: Facts) -> set[ast.expr]:
    """The right sides of assignments that make such a state, outside of the models, for calls with rows in the same function."""
    carriers: dict[ast.AST, set[str]] = {}
    for call in facts.forwards:
        given = _given_to_starts(facts, call)
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            if argument in facts.starts or argument in given or any(getattr(v, "site", None) in facts.starts for v in facts.of(argument)):
                carriers.setdefault(facts.function(call), set()).update(_variables(argument))
    found: set[ast.expr] = set()
    for _, statement in facts.nodes(ast.Assign):
        assert isinstance(statement, ast.Assign)
        names = {n.id for n in ast.walk(statement.targets[0]) if isinstance(n, ast.Name)}
        if names and names <= carriers.get(facts.function(statement), set()) and _starts_anew(facts, statement.value, names):
            found.add(statement.value)
    return found


def _variables(argument: ast.expr) -> set[str]:
    """The plain variables that `argument` hands over: itself, or those of a tuple."""
    parts = argument.elts if isinstance(argument, ast.Tuple) else [argument]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _given_to_starts(facts: Facts, call: ast.Call) -> set[ast.expr]:
    """The arguments of `call` for parameters that are such states."""
    found: set[ast.expr] = set()
    for function in facts.callees.get(call, ()):
        parameters = function.args.args[1:]
        found.update(given for given, parameter in zip(call.args, parameters, strict=False) if parameter in facts.starts)
        names = {a.arg for a in [*parameters, *function.args.kwonlyargs] if a in facts.starts}
        found.update(k.value for k in call.keywords if k.arg in names)
    return found


def _starts_anew(facts: Facts, made: ast.expr, names: set[str]) -> bool:
    """Whether `made` is neither the state before nor a model's output, and not sized by this process's rows."""
    if not isinstance(made, ast.Call | ast.Tuple):
        return False
    for node in ast.walk(made):
        if (isinstance(node, ast.Name) and node.id in names) or node in facts.forwards:
            return False
        if made not in facts.states and any(isinstance(v, Local) or (isinstance(v, Made) and v.role is Role.SHAPE) for v in facts.of(node)):
            return False
    return True
