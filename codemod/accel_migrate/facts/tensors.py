"""What tensor functions, tensor methods and losses do to abstract values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import axes, blocks, catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.effects import calls_library, joined_rows, marks_ignored
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    Literal,
    Local,
    Made,
    Role,
    Spread,
    Values,
    altered,
    locals_of,
    made,
)

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame


class Tensors:
    """Part of `Library`."""

    def tensor_function(self, name: str, last: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        inputs = [self.evaluator._deep(v) for v in args.all()]
        first = inputs[0] if inputs else UNKNOWN
        if last in catalog.FINITENESS and node.args and self._asks_of_figure(node.args[0], first, frame):
            return UNKNOWN
        shaped = any(Spread.COUNT in ops.spreads(v) or made(v, Role.SHAPE) for v in inputs)
        if name in catalog.RANDOM_DRAWS and shaped:
            return frozenset({Local(Spread.SHARD)})
        if name in catalog.BATCH_PERMUTATIONS and shaped:
            return frozenset({Local(Spread.SHARD, rank=1, order=node)})
        if name in {"torch.tensor", "torch.as_tensor"} and ops.spreads(first) and not ops.spreads(first) - {Spread.COUNT, Spread.RATE}:
            self.evaluator.convert(node.args[0], first, frame, "collect")
            return UNKNOWN
        if name in catalog.TENSOR_MAKERS and not shaped:
            return _strongest(inputs)
        if name in catalog.TENSOR_MAKERS:
            return frozenset({Local(Spread.SHARD)})
        if last == "arange" and not shaped and not self.machine.ask(calls_library, "pad_packed_sequence"):
            for bound in node.args:
                self.evaluator.global_bound(bound, frame)  # what it is compared with is as wide as the whole batch
        if last in {"zeros", "ones", "full", "empty", "arange", "linspace", "rand", "randn", "randint", "tensor"}:
            return frozenset({Local(Spread.SHARD)}) if shaped else UNKNOWN
        if last in axes.REPEATING and not locals_of(first) and shaped:
            return frozenset({axes.repeated(last, self._literals(args.nodes[1:]))})
        if last in {"stack", "cat", "concat", "concatenate", "vstack", "hstack"}:
            one_for_each_row = bool(args.positional) and Spread.SHARD in ops.spreads(args.positional[0])
            if last == "stack":
                return _strongest(inputs) if one_for_each_row else self._stacked(_strongest(inputs), args)
            return blocks.joined(self.evaluator, _strongest(inputs), args)
        if Spread.SHARD in ops.spreads(first) and (last in catalog.PLACES or (last == "where" and len(inputs) == 1)):
            return ops.places(first, args.nodes[0])
        if last == "masked_select" and len(args.nodes) > 1:
            return ops.chosen(first, inputs[1], args.nodes[1])
        counts = self.counted(last, node, args.nodes[0], first, args, 1, frame) if args.nodes else None
        if counts is not None:
            return counts
        if last == "einsum":
            return ops.contraction(args.literal(0, "equation"), inputs[1:])
        if name in catalog.TENSOR_PRODUCTS and len(inputs) > 1:
            return ops.local(Spread.SUM, *inputs) if last in catalog.SCALAR_PRODUCTS and Spread.SHARD in ops.spreads(first) else ops.product(first, inputs[1])
        shard = any(Spread.SHARD in ops.spreads(v) for v in inputs)
        if shard and last in catalog.ELEMENTWISE:
            self._meets_statistics([*args.nodes, *args.keyword_nodes.values()], inputs, frame)
        if shard and (Spread.SHARD in ops.spreads(first) or not locals_of(first)):
            if last in {*catalog.ROW_REDUCTIONS, *catalog.OTHER_REDUCTIONS, *catalog.SELECTIONS, *axes.SHAPING}:
                return self.transformed(last, first, inputs[1:], args, 1, node.args[0] if node.args else node)
            return ops.local(Spread.SHARD, *inputs)
        result = frozenset(locals_of(ops.tensor_method(last, first, self.dims(args, 1), inputs[1:])))
        return ops.made_of(result, [first, *inputs[1:]], node.args[0]) if node.args else result

    def _meets_statistics(self, nodes: list[ast.expr], values: list[Values], frame: Frame) -> None:
        """`torch.where(target > 0.5, target.mean(), 1)`: each row meets the figures of all of them."""
        for node, found in zip(nodes, values, strict=False):
            if ops.statistic(found):
                self.evaluator.convert(node, found, frame, "statistic")
            elif ops.statistic(ops.without_grad(found)):
                self.machine.spoil()
                self.facts.trained_statistics.add(node)

    def _stacked(self, values: Values, args: Arguments) -> Values:
        dim = self._literal(node) if (node := args.node(1, "dim")) is not None else 0
        return frozenset(axes.stacked(v, dim) if v.spread is Spread.SHARD else v for v in locals_of(values))

    def tensor_method(self, node: ast.Call, func: ast.Attribute, base: Values, args: Arguments, frame: Frame) -> Values:
        name = func.attr
        if name in {"item", "tolist", "numpy"} and ops.spreads(base) == {Spread.ROW}:
            return base
        if name == "item" and ops.spreads(base) == {Spread.SUM} and self.evaluator.is_size(node):
            return ops.without_grad(base)
        if name == "item" and ops.spreads(base):
            self.evaluator.convert(func.value, base, frame, "item")
            return UNKNOWN
        if name in catalog.HOST_CONVERSIONS and func.value in self.machine.staying:
            return base
        if name in catalog.HOST_CONVERSIONS and locals_of(base):
            self.evaluator.convert(func.value, base, frame, "array")
            return UNKNOWN
        if name == "size" and Spread.SHARD in ops.spreads(base):
            if not node.args:
                return frozenset({Made(Role.SHAPE, node, ops.shape_of(next(v for v in locals_of(base) if v.spread is Spread.SHARD)))})
            return ops.row_count(base) if args.literal(0, "dim") == _axis(base) else UNKNOWN
        if name in {"numel", "nelement", "__len__"} and Spread.SHARD in ops.spreads(base):
            return ops.row_count(base)
        if name in {"dim", "type", "get_device"} and not node.args:
            return UNKNOWN
        if name in catalog.FINITENESS and self._asks_of_figure(func.value, base, frame):
            return UNKNOWN
        if name == "format":
            self.show(node, args, frame)
            return UNKNOWN
        if name in catalog.PLACES and Spread.SHARD in ops.spreads(base):
            return ops.places(base, func.value)
        if name == "masked_select" and args.nodes:
            return ops.chosen(base, args.positional[0], args.nodes[0])
        counts = self.counted(name, node, func.value, base, args, 0, frame) if locals_of(base) else self.added_up(name, node, args, frame)
        if counts is not None:
            return counts
        inputs = [self.evaluator._deep(v) for v in args.all()]
        if name.rstrip("_") in catalog.ELEMENTWISE and any(Spread.SHARD in ops.spreads(v) for v in (base, *inputs)):
            self._meets_statistics([func.value, *args.nodes, *args.keyword_nodes.values()], [base, *inputs], frame)
        if name in axes.REPEATING and not locals_of(base) and any(Spread.COUNT in ops.spreads(v) for v in inputs):
            return frozenset({axes.repeated(name, self._literals(args.nodes))})
        return self.transformed(name, base, inputs, args, 0, func.value)

    def transformed(self, name: str, base: Values, others: list[Values], args: Arguments, position: int, rows: ast.expr) -> Values:
        """What the operation `name` makes of `base`, the value of `rows`; its arguments stand from `position` on."""
        if name in catalog.PRODUCTS and others:
            return ops.product(base, others[0])
        if name in catalog.SCALAR_PRODUCTS and Spread.SHARD in ops.spreads(base):
            return ops.local(Spread.SUM, base, *others)
        dims = self.numbers(args, position) if name in axes.SHAPING else self.dims(args, position + axes.AFTER.get(name, 0))
        keeps = bool(args.literal(99, "keepdim") or args.literal(99, "keepdims"))
        result = ops.over_joined(ops.tensor_method(name, base, dims, others, keeps), [base], self.machine.ask(joined_rows, rows))
        return ops.made_of(result, [base, *others], rows)

    def _asks_of_figure(self, node: ast.expr, values: Values, frame: Frame) -> bool:
        """`torch.isnan(loss)`: the processes must agree, so the question is about the global figure."""
        if not ops.spreads(values) or Spread.SHARD in ops.spreads(values):
            return False
        self.evaluator.convert(node, values, frame, "test")
        return True

    def dims(self, args: Arguments, position: int) -> list[object] | None:
        """The literal dimensions of a reduction; None where it reduces everything."""
        node = args.node(position, "dim") or args.node(position, "axis")
        if node is None or (isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))):
            return None
        tuples = [v.site for v in self.facts.of(node) if isinstance(v, Box) and isinstance(v.site, ast.Tuple | ast.List)]
        if isinstance(node, ast.Tuple | ast.List) or not tuples:
            return self._literals([node])
        choices = {ast.unparse(site): self._literals([site]) for site in tuples}
        every = [dim for choice in choices.values() for dim in choice]
        # dimensions that a condition chooses, `(-1, -2) if ... else (-1, -2, -3)`: the farthest may be the rows
        return [0 if len(choices) > 1 and isinstance(dim, int) and dim < -2 else dim for dim in every]

    def numbers(self, args: Arguments, position: int) -> list[object]:
        """The arguments of a shape operation from `position` on, those of one tuple too; texts where they are not known."""
        named = [args.keyword_nodes[k] for k in ("dim", "dim0", "dim1", "dims", "shape", "axis0", "axis1") if k in args.keyword_nodes]
        return self._literals([*args.nodes[position:], *named])

    def _literals(self, nodes: list[ast.expr]) -> list[object]:
        flat = [e for n in nodes for e in (n.elts if isinstance(n, ast.Tuple | ast.List) else [n])]
        return [self._literal(node) for node in flat]

    def _literal(self, node: ast.expr) -> object:
        if Spread.COUNT in ops.spreads(self.facts.of(node)):
            return axes.ROWS
        known = [v.value for v in self.facts.of(node) if isinstance(v, Literal)]
        if len(known) == 1 and len(self.facts.of(node)) == 1:
            return known[0]
        try:
            return ast.literal_eval(node)
        except ValueError:
            return self.facts.text(node)

    def _note_weights(self, node: ast.Call, frame: Frame) -> None:
        """Weights of a loss that are computed from the batch are those of the whole batch."""
        for keyword in node.keywords:
            if keyword.arg in {"weight", "pos_weight"} and Spread.SHARD not in ops.spreads(self.facts.of(keyword.value)):
                self.evaluator.convert(keyword.value, self.facts.of(keyword.value), frame, "statistic")

    def loss(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """A functional loss: `F.cross_entropy(input, target, ...)`."""
        last = name.rpartition(".")[2]
        if args.keywords.get("reduce"):
            return ops.local(Spread.MIXED, *args.all()) if self.calls.takes_shard(args) else UNKNOWN
        reduction = args.literal(99, "reduction") or ("sum" if args.literal(99, "size_average") is False else "mean")
        self._note_weights(node, frame)
        spread = self._over_joined(ops.loss_spread(last, reduction, args.all()), args)
        return self._weighted(last, spread, args.node(99, "weight"), args.node(99, "ignore_index"), args.node(1, "target"))

    def criterion(self, made_by: Made, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """A call of a loss module made by the library."""
        made_call = made_by.site
        assert isinstance(made_call, ast.Call)
        keywords = {k.arg: k.value for k in made_call.keywords}
        reduction = _literal(keywords.get("reduction")) or ("sum" if _literal(keywords.get("size_average")) is False else "mean")
        last = made_by.detail.rpartition(".")[2]
        spread = self._over_joined(ops.loss_spread(last, reduction, [self.evaluator._deep(v) for v in args.all()]), args)
        weight = keywords.get("weight") or (made_call.args[0] if made_call.args and last in catalog.CLASS_WEIGHTED_LOSSES else None)
        return self._weighted(last, spread, weight, keywords.get("ignore_index"), args.node(1, "target"))

    def _over_joined(self, loss: Values, args: Arguments) -> Values:
        """A loss of joined rows is a mean over them."""
        rows = [n for n in (*args.nodes, *args.keyword_nodes.values()) if Spread.SHARD in ops.spreads(self.facts.of(n))]
        target = args.node(1, "target")
        of_joined = [n for n in rows if any(v.joined for v in locals_of(self.facts.of(n)))] or rows
        counted = target if target in of_joined else next(iter(of_joined), None)
        return loss if counted is None else ops.over_joined(loss, [self.facts.of(counted)], self.machine.ask(joined_rows, counted))

    def _weighted(self, name: str, spread: Values, weight: ast.expr | None, ignored: ast.expr | None, target: ast.expr | None) -> Values:
        """A weighted mean has the sum of its weights as denominator, not the number of rows."""
        if ops.spreads(spread) == {Spread.RATIO} and (weight or ignored) is not None:  # of rows chosen by a mask, too
            return frozenset(altered(v, weight="", parts=()) for v in locals_of(spread))
        if ops.spreads(spread) != {Spread.MEAN} or name not in catalog.CLASS_WEIGHTED_LOSSES or target is None:
            return spread
        if weight is None and ignored is None:
            if not self.marks_ignored():
                return spread
            return frozenset(altered(v, spread=Spread.RATIO, weight="({target} != -100).sum()", parts=(("target", target),)) for v in locals_of(spread))
        template, parts = _denominator(weight, ignored, target)
        return frozenset(altered(v, spread=Spread.RATIO, weight=template, parts=parts) for v in locals_of(spread))

    def marks_ignored(self) -> bool:
        """Whether the program, or a collator of transformers, writes -100: the target that losses leave out unless told otherwise."""
        return self.machine.ask(marks_ignored)

    def find_marks(self) -> bool:
        """The answer to `marks_ignored`, found once."""
        if self._ignored_marks is None:
            minus = (n for _, n in self.facts.nodes(ast.UnaryOp) if isinstance(n.op, ast.USub))  # type: ignore[attr-defined]
            collators = any("DataCollatorFor" in source.text for source in self.facts.sources)
            marks = (n for n in minus if isinstance(n.operand, ast.Constant) and n.operand.value == 100)  # type: ignore[attr-defined]
            self._ignored_marks = collators or any(not any(isinstance(a, ast.Slice) for a in self.facts.ancestors(n)) for n in marks)
        return self._ignored_marks


def _axis(rows: Values) -> int | str:
    """The dimension of the rows, as no number of a dimension where it is not known."""
    axis = next(v.axis for v in locals_of(rows) if v.spread is Spread.SHARD)
    return axis if axis >= 0 else "unknown"


def _strongest(inputs: list[Values]) -> Values:
    for kind in (Spread.SHARD, Spread.MIXED, Spread.RATIO, Spread.SUM, Spread.MEAN):
        for values in inputs:
            if kind in ops.spreads(values):
                return ops.local(kind, *inputs)
    return UNKNOWN


def _literal(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _denominator(weight: ast.expr | None, ignored: ast.expr | None, target: ast.expr) -> tuple[str, tuple[tuple[str, ast.AST], ...]]:
    parts: list[tuple[str, ast.AST]] = [("target", target)]
    if weight is None:
        assert ignored is not None
        return "({target} != {ignored}).sum()", (*parts, ("ignored", ignored))
    parts.append(("weights", weight))
    if ignored is None:
        return "{weights}[{target}].sum()", tuple(parts)
    return "({weights}[{target}] * ({target} != {ignored})).sum()", (*parts, ("ignored", ignored))
