"""Batches that a program makes by itself, without a loader: rows picked by random indices, slices of shuffled data, draws.

Such rows are `whole`: every process makes the same global batch. `plan_cuts` (in `cuts`) finds the places where each process
is to keep its share of them; from there on they are rows like those of a prepared loader.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.counting import is_slice, is_start
from accel_migrate.facts.draw_sizes import counted, draws_one
from accel_migrate.facts.recurrent import time_first_layer
from accel_migrate.facts.values import UNKNOWN, Box, Instance, Literal, Local, Made, Role, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

POOL = "pool"
"""Detail of what holds all samples in a random order: a permutation, or data indexed by one."""
WHOLE: Values = frozenset({Local(Spread.SHARD, whole=True)})
DRAWS = catalog.RANDOM_DRAWS | {"numpy.random.choice", "random.sample", "random.choices"}
SPLITS = {f"torch.{name}" for name in ("split", "chunk", "tensor_split")} | {f"numpy.{name}" for name in ("split", "array_split", "vsplit")}
NO_DATA = {Role.MODEL, Role.PARAMETERS, Role.STATE, Role.OPTIMIZER, Role.SHAPE}
"""Roles of what has parts, but no rows."""


class ByHand:
    """Part of `Evaluator`."""

    def drawn_by_hand(self, name: str, node: ast.Call) -> Values | None:
        """What a library call draws, counts or splits in a program without loaders; None where it does none of it."""
        if not self.machine.by_hand or not node.args:
            return None
        if name in catalog.BATCH_PERMUTATIONS:
            return frozenset({Made(Role.OBJECT, node, POOL)})
        if name in SPLITS and len(node.args) + len(node.keywords) == 2 and not locals_of(self.facts.of(node.args[0])):
            return self.split_by_hand(node)
        if name in DRAWS and not draws_one(name, node) and self._in_loop(node):
            rows_of = counted(name, node)
            return None if isinstance(rows_of, ast.Name) and not self.facts.of(rows_of) else WHOLE  # as unknown as what it counts
        return self.stepped(name, node)

    def split_by_hand(self, node: ast.Call) -> Values:
        """Data that are split along their rows: one batch after the other."""
        batches = Made(Role.OBJECT, node, "iter:split")
        self.machine.write_heap(batches, "yields", WHOLE)
        self.machine.write_heap(batches, "[*]", WHOLE)
        return frozenset({batches})

    def split_method(self, node: ast.Call, func: ast.Attribute, base: Values) -> Values | None:
        """`data.split(32)` of a tensor; not of a text."""
        if not self.machine.by_hand:
            return None
        size = self.facts.of(node.args[0]) if node.args else UNKNOWN
        known = any(isinstance(v, Literal) and type(v.value) is int for v in size)
        if func.attr not in {"split", "chunk", "tensor_split"} or not known or locals_of(base) or len(node.args) > 1 or node.keywords:
            return None
        return self.split_by_hand(node)

    def picked_by_hand(self, node: ast.Subscript, base: Values, index: Values, frame: Frame) -> Values | None:
        """What `base[index]` picks: rows by an index of rows, a slice of a pool, or of data that a loop steps through."""
        if locals_of(base) or any(isinstance(v, Box) for v in base):
            return self._slice_of_list(node, base)
        if Spread.SHARD in ops.spreads(index):
            return ops.local(Spread.SHARD, index)
        if not self.machine.by_hand:
            return None
        pooled = is_pool(base)
        if is_pool(index):
            return frozenset({Made(Role.OBJECT, node, POOL)})
        if self._begins_batches(node, index, base, frame) or (isinstance(node.slice, ast.Slice) and pooled and self._in_loop(node)):
            return None if self._runs_in_time() else WHOLE
        return UNKNOWN if pooled else None

    def _slice_of_list(self, node: ast.Subscript, base: Values) -> Values | None:
        """`samples[i : i + n]` of a list of samples, where `i` begins a batch."""
        listed = self.machine.by_hand and not locals_of(base) and not any(locals_of(self._all_elements(v)) for v in base if isinstance(v, Box))
        return WHOLE if listed and isinstance(node.slice, ast.Slice) and _is_batch(node.slice, self.facts.of) and not self._runs_in_time() else None

    def _begins_batches(self, node: ast.Subscript, index: Values, base: Values, frame: Frame) -> bool:
        """Whether `data[index]` is `data[i : i + n]`, or `data[:, i : i + n]` of parallel sequences, where `i` begins a batch."""
        if any(isinstance(v, Instance) or self.facts.role(v) in NO_DATA for v in base) or getattr(frame.scope.node, "name", "") == "forward":
            return False
        entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return is_slice(index) or any(_is_batch(entry, self.facts.of) for entry in entries[:2])

    def one_for_each_row(self, node: ast.Call, box: Box) -> Values:
        """In a loop over the rows of a batch, a list that gets one element in each turn has as many rows."""
        statement = self.facts.parents[node]
        loop = self.facts.parents[statement]
        if not self.machine.by_hand or not isinstance(loop, ast.For) or self.facts.inside(box.site, loop):
            return UNKNOWN
        rows = locals_of(self.calls.library._iterated(loop.iter))
        return ops.local(Spread.SHARD, frozenset(rows), axis=0) if rows and {v.spread for v in rows} == {Spread.SHARD} else UNKNOWN

    def _in_loop(self, node: ast.AST) -> bool:
        """Whether `node` is evaluated anew in a loop of its function, or of one that called it here or elsewhere, or in a comprehension."""
        comprehended = any(isinstance(a, ast.ListComp | ast.GeneratorExp) for a in self.facts.ancestors(node))
        if self.machine.loops or self.machine.looping > 0 or comprehended:
            self.machine.repeated.add(node)
        return node in self.machine.repeated

    def _runs_in_time(self) -> bool:
        return time_first_layer(self.facts) is not None

    def cut_where_planned(self, node: ast.expr, values: Values) -> Values:
        """`values` of `node`, after each process has kept its share, if that is where the batch is cut."""
        return self.cut(values, node) if node in self.facts.cuts else values

    def cut(self, values: Values, place: ast.expr | ast.stmt) -> Values:
        """`values` after each process has kept its share of the whole rows among them."""
        found = set()
        step = frozenset({self.facts.cuts[place].loop or self.facts.function(place)})
        for value in values:
            if isinstance(value, Box):
                box = Box(place, value.loop, value.rows)
                for key, elements in self.machine.held_by(value):
                    self.machine.write_heap(box, key, self.cut(elements, place))
                found.add(box)
            else:
                found.add(replace(value, whole=False, taken=step) if isinstance(value, Local) and value.whole else value)
        return frozenset(found)

    def cut_targets(self, loop: ast.For | ast.AsyncFor, frame: Frame) -> None:
        """The variables of a loop over batches, after each process has kept its share of what the loop has bound to them."""
        for name in self.facts.cuts[loop].names if loop in self.facts.cuts else ():
            self.machine.write_name(name, self.cut(self.machine.read_name(name, frame), loop), frame)

    def is_whole_batch(self, values: Values, around: frozenset[Box] = frozenset()) -> bool:
        """Whether `values` are whole rows, or a tuple or dict of such; not a list of batches."""
        if any(v.whole for v in locals_of(values)):
            return True
        boxes = [v for v in values if isinstance(v, Box) and v not in around]  # one may hold itself
        return any(key != "*" and self.is_whole_batch(held, around | {box}) for box in boxes for key, held in self.machine.held_by(box))


def is_pool(values: Values) -> bool:
    return any(isinstance(v, Made) and v.detail == POOL for v in values)


def _is_batch(index: ast.expr, of) -> bool:  # type: ignore[no-untyped-def]
    return isinstance(index, ast.Slice) and index.lower is not None and index.upper is not None and is_start(of(index.lower))
