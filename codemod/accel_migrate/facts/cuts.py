"""Where a batch that the program makes by itself is cut, and what shows that not all of a step's inputs are known to be cut."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Cut, Facts, Place
from accel_migrate.facts.machine import Machine
from accel_migrate.facts.uncut import is_loss, uncut_input
from accel_migrate.facts.values import Box, Spread, locals_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)


def plan_cuts(machine: Machine) -> dict[Place, Cut]:
    """The expressions that make whole batches, and the loops over such, in functions that run models."""
    facts = machine.facts
    training = {facts.function(call) for call in (*facts.backwards, *facts.forwards)}
    loops: dict[Place, ast.AST | None] = {}
    for place in (*_assigned(machine), *_looped_over(machine)):
        if facts.function(place) in training:
            loop = place if isinstance(place, LOOPS) else _loop_around(facts, place)
            if loop is None or _runs_a_model(facts, loop):
                loops[place] = loop
    for place in _handed_over(machine):
        loops[place] = _loop_around(facts, place)
    return {place: _cut(machine, place, loop) for place, loop in _used(facts, loops)}


def _cut(machine: Machine, place: Place, loop: ast.AST | None) -> Cut:
    if isinstance(place, ast.For):
        return Cut(loop, tuple(dict.fromkeys(name.id for name in bound_whole(machine, place))))
    return Cut(loop, listed=any(isinstance(v, Box) and isinstance(v.site, ast.List) for v in machine.facts.of(place)))


def _assigned(machine: Machine) -> Iterator[ast.expr]:
    """The right sides of assignments that bind plain variables to a whole batch."""
    for _, statement in machine.facts.nodes(ast.Assign):
        assert isinstance(statement, ast.Assign)
        target = statement.targets[0]
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        if len(statement.targets) == 1 and all(isinstance(n, ast.Name) for n in names) and makes_whole(machine, statement.value):
            yield statement.value


def _looped_over(machine: Machine) -> Iterator[ast.For]:
    """Loops that bind plain variables to one whole batch after the other."""
    for _, loop in machine.facts.nodes(ast.For):
        assert isinstance(loop, ast.For)
        if bound_whole(machine, loop) and not any(_is_local(machine, n) for n in ast.walk(loop.iter) if _is_path(n)):
            yield loop


def bound_whole(machine: Machine, loop: ast.For) -> list[ast.Name]:
    """The variables of `loop` that it binds to whole batches."""
    names = [n for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
    return [n for n in names if machine.evaluator.is_whole_batch(machine.facts.of(n))]


def _handed_over(machine: Machine) -> Iterator[ast.expr]:
    """Arguments of models and losses that make a whole batch right there: `model(*get_batch())`."""
    facts = machine.facts
    calls = [call for call, forward in facts.forwards.items() if forward.recorded]
    calls += [call for _, call in facts.nodes(ast.Call) if isinstance(call, ast.Call) and is_loss(facts, call)]
    for call in calls:
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            node = argument.value if isinstance(argument, ast.Starred) else argument
            if isinstance(node, ast.Call | ast.Subscript) and makes_whole(machine, node):
                yield node


def makes_whole(machine: Machine, node: ast.expr) -> bool:
    """Whether `node` is a whole batch that is made of nothing whole, nor by a model; another name for one makes none."""
    if isinstance(node, ast.Name) or not machine.evaluator.is_whole_batch(machine.facts.of(node)) or any(n in machine.facts.forwards for n in ast.walk(node)):
        return False
    return not any(is_whole(machine, n) for n in ast.walk(node) if n is not node and _is_path(n))


def _used(facts: Facts, cuts: dict[Place, ast.AST | None]) -> Iterator[tuple[Place, ast.AST | None]]:
    """The cuts without those of batches that no training step uses; a batch made ahead of a loop belongs to the loop that makes the next."""
    for place, loop in cuts.items():
        if loop is not None:
            yield place, loop
            continue
        function = facts.function(place)
        ahead = next((other for p, other in cuts.items() if other is not None and facts.function(p) is function and _binds_the_same(facts, p, place)), None)
        trains = any(facts.function(call) is function and _loop_around(facts, call) is None for call in facts.backwards)
        if ahead is not None or trains or not isinstance(function, ast.Module):
            yield place, ahead


def _binds_the_same(facts: Facts, one: Place, other: Place) -> bool:
    statements = [facts.statement(place) for place in (one, other)]
    targets = [ast.unparse(s.targets[0]) for s in statements if isinstance(s, ast.Assign)]
    return len(targets) == 2 and targets[0] == targets[1]


def _loop_around(facts: Facts, node: ast.AST) -> ast.AST | None:
    """The innermost loop of its function around `node`."""
    for ancestor in facts.ancestors(node):
        if isinstance(ancestor, LOOPS):
            return ancestor
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
    return None


def _runs_a_model(facts: Facts, loop: ast.AST) -> bool:
    return any(node in facts.forwards or node in facts.backwards for node in ast.walk(loop))


def _is_path(node: ast.AST) -> bool:
    """`name` and `name.attribute`, which were given their values before."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_local(machine: Machine, node: ast.AST) -> bool:
    return any(v.whole for v in locals_of(machine.facts.of(node)))


def is_whole(machine: Machine, node: ast.AST) -> bool:
    """Whether `node` is, or holds, rows of a batch that is not cut yet."""
    return any(v.whole for v in locals_of(machine.evaluator._deep(machine.facts.of(node))))


def stays_whole(facts: Facts) -> ast.expr | None:
    """Something a model is trained on that is not known to be cut, so that all processes would train on the same rows."""
    steps = [cut.loop or facts.function(place) for place, cut in facts.cuts.items()]
    for call in facts.blind_forwards:
        if any(facts.inside(call, step) for step in steps) and not isinstance(facts.parents[call], ast.Expr) and call not in facts.states:
            return call
    uncut = uncut_input(facts)
    if uncut is not None:
        return uncut
    turned = next((node for call in facts.forwards for node in (*call.args, *(k.value for k in call.keywords)) if _is_turned(facts, node)), None)
    return turned or next((b.loss for b in facts.backwards.values() if any(v.whole for v in locals_of(b.values))), None)


def _is_turned(facts: Facts, node: ast.expr) -> bool:
    """Whether the rows of `node` do not lie in its first dimension; those of a recurrent state lie in the second of three."""
    rows = [v for v in locals_of(facts.of(node)) if v.spread is Spread.SHARD and not (v.axis == 1 and v.rank == 3)]
    return any(v.axis != 0 for v in rows)
