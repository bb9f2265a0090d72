"""Figures that outlive the batch as tensors: `best = loss.detach()`, `self.last = ...`, `history[epoch] = ...`.

Later nobody can tell this process's share of the batch they belong to. They become global where they are kept, unless gradients
flow through them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.effects import reaches_backward
from accel_migrate.facts.liveness import outlives
from accel_migrate.facts.lossflow import CUTS, Place, place, sources_of_losses
from accel_migrate.facts.values import Box, Instance, Local, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

FIGURES = {Spread.MEAN, Spread.SUM, Spread.RATIO}


class Kept:
    """Part of `Evaluator`."""

    _losses: tuple[int, set[Place]] = (0, set())
    """What the losses are made of, with the number of backward passes that were known then."""

    def kept(self, target: ast.expr, values: Values, frame: Frame, statement: ast.stmt) -> Values:
        """What the assigned `target` holds: `values`, or nothing local once they are global."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        if loop is None or not isinstance(statement, ast.Assign) or target not in statement.targets or self.calls._inside_model(frame):
            return values
        kinds = ops.spreads(values)
        if len(kinds) != 1 or not kinds <= FIGURES:
            return values
        self.machine.spoil()
        if not self._stays(target, frame) or not self._may_be_cut(target, statement.value):
            return values
        for node in self._figures_in(statement.value):
            self.convert(node, self.facts.of(node), frame, "collect")
        return frozenset(v for v in values if not isinstance(v, Local))

    def _may_be_cut(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether no backward pass goes through `value`: `history[epoch] = loss` of an array that is only shown."""
        unfollowed = isinstance(target, ast.Subscript) and not self.facts.of(target.value)
        return self.trains_nothing(target, value) or (unfollowed and not self._reaches_backward(target))

    def _stays(self, target: ast.expr, frame: Frame) -> bool:
        """Whether what is assigned to `target` is read in a later batch or after the loop."""
        loop = self.machine.loader_loops[-1]
        if isinstance(target, ast.Name):
            owner = frame.scope.owner(target.id)
            if owner is not frame.scope:
                return True
            return frame.scope is loop.scope and outlives(self.facts, target.id, loop.node)
        if isinstance(target, ast.Attribute):
            kept = [v for v in self.eval(target.value, frame) if isinstance(v, Instance) and not self.made_per_batch(v.site)]
            return bool(kept) and self._is_read(target.attr)
        return isinstance(target, ast.Subscript) and self._outside(target.value, frame)

    def _outside(self, target: ast.expr, frame: Frame) -> bool:
        """Whether the container or tensor `target` was there before the batch."""
        values = self.eval(target, frame)
        if locals_of(values):
            return False
        boxes = [v for v in values if isinstance(v, Box)]
        if boxes:
            return not any(self.made_per_batch(box.site) for box in boxes)
        if isinstance(target, ast.Attribute):
            return isinstance(target.value, ast.Name)
        return isinstance(target, ast.Name) and not self._is_per_batch(target.id, frame)

    def _is_read(self, attribute: str) -> bool:
        reads = (n for _, n in self.facts.nodes(ast.Attribute) if n.attr == attribute)  # type: ignore[attr-defined]
        return any(isinstance(n.ctx, ast.Load) for n in reads) or any(name in {"getattr", "vars"} for name in self.facts.external.values())  # type: ignore[attr-defined]

    def is_cut(self, node: ast.expr) -> bool:
        """Whether `node` says itself that no gradient flows through its value: by `detach`, by a comparison."""
        if not locals_of(self.facts.of(node)) or isinstance(node, ast.Compare):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return node.func.attr in CUTS or (bool(locals_of(self.facts.of(node.func.value))) and self.is_cut(node.func.value))
        if isinstance(node, ast.Attribute) and node.attr == "data":
            return True
        if isinstance(node, ast.BinOp):
            return self.is_cut(node.left) and self.is_cut(node.right)
        return isinstance(node, ast.IfExp) and self.is_cut(node.body) and self.is_cut(node.orelse)

    def trains_nothing(self, target: ast.expr, value: ast.expr) -> bool:
        """Whether no backward pass goes through `value` by way of the variable or container `target`."""
        return self.is_cut(value) or (not any(v.grad for v in locals_of(self.facts.of(value))) and not self._reaches_backward(target))

    def _figures_in(self, node: ast.expr) -> Iterator[ast.expr]:
        """The local figures of which `node` is made up by sums, multiples and choices."""
        if isinstance(node, ast.IfExp):
            yield from self._figures_in(node.body)
            yield from self._figures_in(node.orelse)
        elif isinstance(node, ast.BinOp) and (isinstance(node.op, ast.Add | ast.Sub) or not self._both_local(node)):
            yield from self._figures_in(node.left)
            yield from self._figures_in(node.right)
        elif ops.spreads(self.facts.of(node)):
            yield node

    def _both_local(self, node: ast.BinOp) -> bool:
        return bool(ops.spreads(self.facts.of(node.left))) and bool(ops.spreads(self.facts.of(node.right)))

    def _reaches_backward(self, target: ast.expr) -> bool:
        """Whether `target`, or the container in which it is, takes part in what some backward pass starts from."""
        while isinstance(target, ast.Subscript):
            target = target.value
        return self.machine.ask(reaches_backward, target)

    def goes_into_losses(self, target: ast.expr) -> bool:
        """Whether `target` is one of the places of which losses are made, as far as is known."""
        known = len(self.facts.backwards)
        if self._losses[0] != known:
            self._losses = (known, sources_of_losses(self.facts))
        return place(self.facts, target) in self._losses[1]
