"""Numbers that size a tensor, or bound a slice: is a process's own number wanted there?"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.accumulators import indices
from accel_migrate.facts.values import Spread, Values

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

MAKERS = {"arange", "empty", "full", "normal", "ones", "rand", "randint", "randn", "randperm", "zeros"}


class Sizes:
    """Part of `Evaluator`."""

    def is_size(self, node: ast.expr) -> bool:
        """Whether `node`, or the variable it is assigned to, is used as the size of a new tensor, and for nothing else."""
        statement = self._statement(node)
        if isinstance(statement, ast.Assign) and statement.value is node and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            uses = [n for n in ast.walk(self.facts.function(node)) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
            return bool(uses) and all(self._sizes(use) for use in uses)
        return self._sizes(node)

    def bound_by_rows(self, node: ast.Subscript, base: Values, frame: Frame) -> None:
        """`x[:, : lengths.max()]`: the batch is trimmed to its longest row, which may be on another process."""
        slices = [e for e in (node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]) if isinstance(e, ast.Slice)]
        if Spread.SHARD in ops.spreads(base):
            for bound in (b for entry in slices for b in indices(entry)):
                self.global_bound(bound, frame)

    def global_bound(self, bound: ast.expr, frame: Frame) -> None:
        """Where `bound` is an extreme of this process's rows, it becomes that of all rows."""
        values = self.facts.of(bound)
        if ops.spreads(values) == {Spread.MIXED} and ops.statistic(ops.without_grad(values)):
            self.convert(bound, values, frame, "statistic")

    def _sizes(self, node: ast.expr) -> bool:
        """Whether `node` stands among the arguments of a function that makes a tensor: itself, or in a tuple."""
        parent = self.facts.parents[node]
        call = self.facts.parents[parent] if isinstance(parent, ast.Tuple | ast.List | ast.keyword) else parent
        return isinstance(call, ast.Call) and node is not call.func and ast.unparse(call.func).rpartition(".")[2] in MAKERS
