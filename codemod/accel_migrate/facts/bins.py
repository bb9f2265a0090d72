"""Numbers of rows by class or bin: `bincount`, `histc`, confusion matrices. They are figures of the whole batch.

What the script makes of such counts is seldom linear (`1 / counts.clamp(min=1)`, `counts > 0`), so they become global where
they are counted. Counts that cut this process's own rows (`x.split(counts.tolist())`) stay as they are.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.values import UNKNOWN, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame

COUNTERS = {"bincount", "histc", "histogram", "histogramdd", "confusion_matrix"}
CUTTERS = {"split", "tensor_split", "split_with_sizes", "repeat_interleave", "repeat", "cumsum", "pack_padded_sequence"}
"""What takes numbers of this process's rows to cut or repeat those rows."""


class Bins:
    """Part of `Library`."""

    def counted(self, last: str, node: ast.Call, rows: ast.expr, base: Values, args: Arguments, position: int, frame: Frame) -> Values | None:
        """What the counter `last` makes of `rows`; its options stand from `position` on. None: it is no counter of rows."""
        if Spread.SHARD not in ops.spreads(base):
            return None
        if last == "unique" and args.literal(99, "return_counts") and not args.literal(99, "return_inverse"):
            return self._made_global(rows, base, frame)
        if last not in COUNTERS:
            return None
        if self._cuts_rows(node):
            return ops.without_grad(ops.local(Spread.SUM, base))
        others = [v for v in args.all()[position:] if Spread.SHARD in ops.spreads(v)]
        if self._has_known_size(last, args, position):
            return self._made_global(node, ops.local(Spread.SUM, base), frame)
        if others:
            return ops.without_grad(ops.local(Spread.MIXED, base, *others, reduced=None))
        return self._made_global(rows, base, frame)

    def added_up(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values | None:
        """`zeros.scatter_add_(0, y, ones)`, `zeros.index_put_((y, p), ones, accumulate=True)`: sums over the rows, by class."""
        accumulates = args.literal(2, "accumulate") is True if name.startswith("index_put") else args.literal(0, "dim") == 0
        if name.rstrip("_") not in {"scatter_add", "index_add", "index_put"} or not accumulates:
            return None
        inputs = [self.evaluator._deep(v) for v in args.all()]
        if not any(Spread.SHARD in ops.spreads(v) for v in inputs):
            return None
        added = args.get(1, "values") if name.startswith("index_put") else args.get(2, "src") | args.get(2, "source")
        if not name.startswith("index_put") and any(v.joined for v in locals_of(args.get(1, "index"))) and self.evaluator.in_model(node):
            return ops.local(Spread.SHARD, frozenset(locals_of(added)), joined=False)  # nodes are pooled: a row for each graph of this process
        sums = ops.local(Spread.SUM, ops.without_grad(frozenset().union(*inputs)), frozenset(locals_of(added)))
        if any(v.grad for v in locals_of(sums)):
            self.machine.spoil()
            self.facts.trained_statistics.add(node)
            return sums
        if self._cuts_rows(node):
            return sums
        filled = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(self.facts.parents[node], ast.Expr) and isinstance(filled, ast.Name):
            self.machine.write_name(filled.id, sums, frame)  # `counts.scatter_add_(0, y, ones)`: global where it is used
            return sums
        return self._made_global(node, sums, frame)

    def _made_global(self, node: ast.expr, values: Values, frame: Frame) -> Values:
        self.evaluator.convert(node, ops.without_grad(values), frame, "statistic")
        return UNKNOWN

    def _has_known_size(self, last: str, args: Arguments, position: int) -> bool:
        """Whether the bins are the same on every process, whatever its rows are."""
        if last == "bincount":
            return args.node(position + 1, "minlength") is not None
        if last == "histc":
            return args.node(position + 1, "min") is not None and args.node(position + 2, "max") is not None
        return False

    def _cuts_rows(self, node: ast.Call) -> bool:
        """Whether what `node` counts is used to cut rows: as an argument of `split`, by itself or under its name."""
        statement = self.evaluator._statement(node)
        names = {t.id for t in statement.targets if isinstance(t, ast.Name)} if isinstance(statement, ast.Assign) else set()
        cutters = (n for n in ast.walk(self.facts.function(node)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in CUTTERS)
        for cutter in cutters:
            used = [n for a in [cutter.func, *cutter.args, *(k.value for k in cutter.keywords)] for n in ast.walk(a)]
            if node in used or any(isinstance(n, ast.Name) and n.id in names for n in used):
                return True
        return False
