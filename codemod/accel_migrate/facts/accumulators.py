"""Variables and arrays that outlive the batch: what is added or written to them is a figure of the global batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.by_place import holds_places
from accel_migrate.facts.effects import external_name, losses_in
from accel_migrate.facts.liveness import starts_anew
from accel_migrate.facts.values import (
    Box,
    Literal,
    Local,
    Made,
    Spread,
    Values,
    locals_of,
)

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame


class Accumulators:
    """Part of `Evaluator`."""

    def augmented(self, node: ast.AugAssign, old: Values, new: Values, frame: Frame) -> Values:
        """The value of the target after `target op= value`."""
        moved_on = self.moved_on(node, old, new)
        if moved_on:
            return moved_on
        per_batch = self._is_per_batch(node.target.id, frame) if isinstance(node.target, ast.Name) else self._begins_here(node)
        feeds = self._feeds_backward(node.target, frame) or (any(v.grad for v in locals_of(new)) and self._reaches_backward(node.target))  # type: ignore[attr-defined]
        if not locals_of(old) and locals_of(new) and not per_batch and not feeds:
            self.convert(node.value, new, frame, "state" if isinstance(node.target, ast.Attribute) else "collect")
            return frozenset(v for v in old if not isinstance(v, Literal))
        if not locals_of(old) and not locals_of(new) and not per_batch and not feeds and self.for_each_row(node):
            self.convert(node.target, frozenset({Local(Spread.ROW)}), frame, "collect")  # `hits += 1` for some rows of this process
            return frozenset(v for v in old if not isinstance(v, Literal))
        return ops.combine(node.op, old, new, node.value) | frozenset(v for v in old | new if isinstance(v, Made | Box))

    def for_each_row(self, node: ast.AST) -> bool:
        """Whether `node` runs once for each row of a batch, in a loop of its function inside that over the loader."""
        loop = self.machine.loader_loops[-1].node if self.machine.loader_loops else None
        for around in self.facts.ancestors(node):
            if around is loop or isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            if loop is not None and self.runs_for_rows(around):
                return True
        return False

    def runs_for_rows(self, loop: ast.AST) -> bool:
        """Whether `loop` runs once for each row of a batch: `for row in x`, `for a, b in zip(x, y)`, `for i in range(len(x))`."""
        return isinstance(loop, ast.For) and self._are_rows(loop.iter)

    def _are_rows(self, iterated: ast.expr) -> bool:
        values = self.facts.of(iterated)
        if isinstance(iterated, ast.Call) and (name := self.machine.ask(external_name, iterated)) in {"zip", "enumerate", "range"}:
            return any(ops.spreads(self.facts.of(a)) == {Spread.COUNT} if name == "range" else self._are_rows(a) for a in iterated.args)
        return ops.spreads(values) == {Spread.SHARD} and not any(v.batch or v.output or v.axis != 0 for v in locals_of(values))

    def _is_per_batch(self, name: str, frame: Frame) -> bool:
        """Whether the variable `name` starts anew with every batch, or belongs to a function called for the batch."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        if loop is None or frame.scope is not loop.scope:
            return loop is not None
        return starts_anew(self.facts, name, loop.node)

    def _begins_here(self, node: ast.AugAssign) -> bool:
        """Whether the function that is called for each batch sets the attribute first: `self.kl = 0` at the head of `forward`."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        function = self.facts.function(node)
        if loop is None:
            return False
        self.machine.spoil()
        if function not in self.machine.stack[loop.depth :]:
            return False
        text = self.facts.text(node.target)
        above = (s for s in function.body if s.lineno < node.lineno)  # type: ignore[union-attr]
        return any(isinstance(s, ast.Assign) and any(self.facts.text(t) == text for t in s.targets) for s in above)

    def fill(self, target: ast.Subscript, values: Values, frame: Frame, statement: ast.stmt) -> Values:
        """`kept[start:start + n] = rows`, where `kept` outlives the batch: places and rows are those of the global batch.

        What is stored then.
        """
        kept = self.eval(target.value, frame)
        if not self.machine.loader_loops or locals_of(kept) or not isinstance(statement, ast.Assign):
            return values
        if isinstance(target.value, ast.Name) and self._is_per_batch(target.value.id, frame):
            return values
        if kept and all(isinstance(box, Box) and self.made_per_batch(box.site) for box in kept):
            return values  # `self.outputs = {}` at the head of a forward pass
        places = {node: self.eval(node, frame) for node in indices(target.slice)}
        if holds_places(self.facts, target):
            return values
        how = "state" if isinstance(target.value, ast.Attribute) else "collect"
        for node, place in places.items():
            if ops.spreads(place) & {Spread.COUNT, Spread.SHARD}:
                self.convert_leaves(node, frame, how)
        if ops.spreads(values) != {Spread.SHARD} and any(v.grad for v in locals_of(values)):
            return values
        self.convert_leaves(statement.value, frame, how)
        return frozenset(v for v in values if not isinstance(v, Local))

    def made_per_batch(self, site: ast.AST) -> bool:
        """Whether the container written at `site` starts anew with every batch."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        if loop is None:
            return False
        self.machine.spoil()
        return self.facts.inside(site, loop.node) or self.facts.function(site) in self.machine.stack[loop.depth :]

    def _feeds_backward(self, target: ast.expr, frame: Frame) -> bool:
        losses = self.machine.ask(losses_in, frame.scope)
        if not losses:
            return False
        text = self.facts.text(target)
        return any(isinstance(n, ast.Name | ast.Attribute) and self.facts.text(n) == text for loss in losses for n in ast.walk(loss))


def indices(index: ast.expr) -> list[ast.expr]:
    """The expressions of `i`, `i:j` and `:, i:j`."""
    entries = index.elts if isinstance(index, ast.Tuple) else [index]
    bounds = [b for e in entries for b in ((e.lower, e.upper) if isinstance(e, ast.Slice) else (e,))]
    return [b for b in bounds if b is not None]
