"""Batches that a program makes by itself, without a loader: rows picked by random indices, slices of shuffled data, draws.

Such rows are `whole`: every process makes the same global batch. `plan_cuts` finds the statements where each process
is to keep its share of them; from there on they are rows like those of a prepared loader.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.uncut import uncut_input
from accel_migrate.facts.values import UNKNOWN, Box, Local, Made, Role, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Facts
    from accel_migrate.facts.machine import Frame, Machine

POOL = "pool"
"""Detail of what holds all samples in a random order: a permutation, or data indexed by one."""
LOOPS = (ast.For, ast.AsyncFor, ast.While)
WHOLE: Values = frozenset({Local(Spread.SHARD, whole=True)})


class ByHand:
    """Part of `Evaluator`."""

    def drawn_by_hand(self, name: str, node: ast.Call) -> Values | None:
        """What a library call draws in a program without loaders; None where it draws nothing."""
        if not self.machine.by_hand or not node.args:
            return None
        if name in catalog.BATCH_PERMUTATIONS:
            return frozenset({Made(Role.OBJECT, node, POOL)})
        if name in catalog.RANDOM_DRAWS | {"numpy.random.choice", "random.sample"} and self._in_loop(node):
            return WHOLE
        return None

    def picked_by_hand(self, node: ast.Subscript, base: Values, index: Values, frame: Frame) -> Values | None:
        """What `base[index]` picks: rows by an index of rows, a slice of a pool, or of data that a loop steps through."""
        if locals_of(base) or any(isinstance(v, Box) for v in base):
            return None
        if Spread.SHARD in ops.spreads(index):
            return ops.local(Spread.SHARD, index)
        if not self.machine.by_hand:
            return None
        pooled = is_pool(base)
        if is_pool(index):
            return frozenset({Made(Role.OBJECT, node, POOL)})
        if isinstance(node.slice, ast.Slice) and self._in_loop(node) and (pooled or self._steps_through(node.slice, frame)):
            return WHOLE
        return UNKNOWN if pooled else None

    def _in_loop(self, node: ast.AST) -> bool:
        """Whether `node` is evaluated anew in a loop of its function, or of one that called it."""
        return bool(self.machine.loops) or self.machine.looping > 0

    def _steps_through(self, index: ast.Slice, frame: Frame) -> bool:
        """`data[i : i + n]` in `for i in range(0, len(data), n)`, unless the program's models run along the first dimension."""
        if not isinstance(index.lower, ast.Name) or index.upper is None or self._runs_in_time():
            return False
        for loop in self.machine.loops:
            if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == index.lower.id:
                return isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range" and len(loop.iter.args) == 3
        return False

    def _runs_in_time(self) -> bool:
        """Whether a layer of the program takes time as the first dimension."""
        for call, name in self.facts.external.items():
            batch_first = next((k.value for k in call.keywords if k.arg == "batch_first"), None)
            if name.rpartition(".")[2] in catalog.TIME_FIRST and not (isinstance(batch_first, ast.Constant) and batch_first.value is True):
                return True
        return False

    def cut(self, values: Values, statement: ast.stmt) -> Values:
        """`values` after each process has kept its share of the whole rows among them."""
        found = set()
        step = frozenset({self.facts.cuts[statement] or self.facts.function(statement)})
        for value in values:
            if isinstance(value, Box):
                box = Box(statement, value.loop, value.rows)
                for key, elements in self.machine.held_by(value):
                    self.machine.write_heap(box, key, self.cut(elements, statement))
                found.add(box)
            else:
                found.add(replace(value, whole=False, taken=step) if isinstance(value, Local) and value.whole else value)
        return frozenset(found)


def is_pool(values: Values) -> bool:
    return any(isinstance(v, Made) and v.detail == POOL for v in values)


def plan_cuts(machine: Machine) -> dict[ast.stmt, ast.AST | None]:
    """The assignments of whole batches in functions that run models -> the loop around each."""
    facts = machine.facts
    training = {facts.function(call) for call in (*facts.backwards, *facts.forwards)}
    cuts: dict[ast.stmt, ast.AST | None] = {}
    for _, statement in facts.nodes(ast.Assign):
        assert isinstance(statement, ast.Assign)
        if facts.function(statement) in training and _makes_whole(machine, statement):
            cuts[statement] = next((a for a in facts.ancestors(statement) if isinstance(a, LOOPS)), None)
    return cuts


def _makes_whole(machine: Machine, statement: ast.Assign) -> bool:
    """Whether `statement` binds plain variables to a whole batch that it makes of nothing whole."""
    target = statement.targets[0]
    names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
    if len(statement.targets) > 1 or not all(isinstance(n, ast.Name) for n in names) or not is_whole(machine, statement.value):
        return False
    if any(n in machine.facts.forwards for n in ast.walk(statement.value)):
        return False  # what a model makes of a batch is not the batch
    return not any(is_whole(machine, n) for n in ast.walk(statement.value) if n is not statement.value and _is_path(n))


def _is_path(node: ast.AST) -> bool:
    """`name` and `name.attribute`, which were given their values before."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def is_whole(machine: Machine, node: ast.AST) -> bool:
    """Whether `node` is, or holds, rows of a batch that is not cut yet."""
    return any(v.whole for v in locals_of(machine.evaluator._deep(machine.facts.of(node))))


def stays_whole(facts: Facts) -> ast.expr | None:
    """Something a model is trained on that is not known to be cut, so that all processes would train on the same rows."""
    steps = [loop or facts.function(statement) for statement, loop in facts.cuts.items()]
    for call in facts.blind_forwards:
        if any(facts.inside(call, step) for step in steps):
            return call
    uncut = uncut_input(facts)
    if uncut is not None:
        return uncut
    return next((b.loss for b in facts.backwards.values() if any(v.whole for v in locals_of(b.values))), None)
