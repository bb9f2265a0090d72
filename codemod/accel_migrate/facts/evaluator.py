"""Abstract values of expressions. Calls are in `calls`; arithmetic is in `operations`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.accumulators import Accumulators
from accel_migrate.facts.by_hand import ByHand
from accel_migrate.facts.calls import Calls
from accel_migrate.facts.comprehensions import Comprehensions
from accel_migrate.facts.containers import Containers
from accel_migrate.facts.counting import Counting, asks_for_any, is_number
from accel_migrate.facts.effects import note_conversion
from accel_migrate.facts.joins import limited
from accel_migrate.facts.kept import Kept
from accel_migrate.facts.members import Members
from accel_migrate.facts.records import Records
from accel_migrate.facts.recurrent import started
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.sizes import Sizes
from accel_migrate.facts.states import States
from accel_migrate.facts.trainable import Trainables
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    Function,
    Literal,
    Made,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    locals_of,
)

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame, Machine


_OPERATIONS = (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp, ast.Attribute)


class Evaluator(Members, Containers, Records, Comprehensions, Accumulators, States, Kept, ByHand, Counting, Sizes, Trainables):
    """`eval(node, frame)` gives the values of an expression and records them in the facts."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.facts = machine.facts
        self.calls = Calls(self)
        self._entries = defaultdict(dict)
        self._methods: dict[type[ast.expr], Callable[[Any, Frame], Values]] = {}

    def eval(self, node: ast.expr, frame: Frame) -> Values:
        method = self._methods.get(type(node)) or self._evaluating(type(node))
        values = method(node, frame)
        if node in self.machine.hoisted:
            values = UNKNOWN
        if (self.machine.trains_tensors or self.facts.trace is not None) and isinstance(node, _OPERATIONS):
            values = self.reached_by_gradients(node, values)
        if frame.gathered and isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) in frame.gathered:
            return UNKNOWN
        if values:
            values = limited(ops.without_grad(values) if self.machine.no_grad else values)
        values = self.cut_where_planned(node, values) if self.facts.cuts else values
        values = started(self, node, values) if node in self.facts.states else values
        trace = self.facts.trace
        if trace is not None:
            trace.evaluated(node, values)
        old = self.facts.values.get(node)
        if old is None:
            self.facts.values[node] = values
        elif old is not values or len(old) > 1:
            self.facts.values[node] = limited(old | values)
        return UNKNOWN if node in self.machine.whole_counts else values

    def _evaluating(self, kind: type[ast.expr]) -> Callable[[Any, Frame], Values]:
        """What gives the values of expressions of `kind`."""
        method = self._methods[kind] = getattr(self, f"on_{kind.__name__}", self.on_other)
        return method

    def _statement(self, node: ast.AST) -> ast.stmt | None:
        parents = self.facts.parents
        while node is not None and not isinstance(node, ast.stmt):
            node = parents.get(node)  # type: ignore[assignment]
        return node

    def on_other(self, node: ast.expr, frame: Frame) -> Values:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.eval(child, frame)
        return UNKNOWN

    def on_Constant(self, node: ast.Constant, frame: Frame) -> Values:
        if isinstance(node.value, str) and node.value.split(":")[0] in {"cuda", "mps", "xpu"}:
            return frozenset({Literal(node.value), Made(Role.DEVICE, node, node.value)})
        return frozenset({Literal(node.value)}) if isinstance(node.value, str | int | float | bool | None) else UNKNOWN

    def on_JoinedStr(self, node: ast.JoinedStr, frame: Frame) -> Values:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.eval(part.value, frame)
                if part.format_spec is not None:
                    self.eval(part.format_spec, frame)
                if not self._is_complaint(node):
                    self.calls.library.show_expression(part.value, frame)
        first = node.values[0] if node.values else None
        if isinstance(first, ast.Constant) and str(first.value).startswith("cuda"):
            return frozenset({Made(Role.DEVICE, node, "cuda")})
        return UNKNOWN

    def _is_complaint(self, node: ast.expr) -> bool:
        """Whether `node` belongs to an error message: what one process complains of is its own figure."""
        child: ast.AST = node
        for ancestor in self.facts.ancestors(node):
            if isinstance(ancestor, ast.Raise) or (isinstance(ancestor, ast.Assert) and ancestor.msg is child):
                return True
            child = ancestor
        return False

    def on_Await(self, node: ast.Await, frame: Frame) -> Values:
        return self.eval(node.value, frame)

    def on_BinOp(self, node: ast.BinOp, frame: Frame) -> Values:
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        if isinstance(node.op, ast.Mod) and any(isinstance(v, Literal) and isinstance(v.value, str) for v in left):
            for part in node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]:
                self.convert(part, self.facts.of(part), frame, "print")
            return UNKNOWN
        for number, values, rows in ((node.right, right, left), (node.left, left, right)):
            if Spread.SHARD in ops.spreads(rows) and ops.spreads(values) and ops.spreads(values) <= {Spread.COUNT, Spread.RATE}:
                self.convert(number, values, frame, "count")  # `(losses / len(x)).sum()` divides by the global batch
        for figure, values, rows in ((node.right, right, left), (node.left, left, right)):
            if Spread.SHARD not in ops.spreads(rows):
                continue
            if ops.statistic(values):
                self.convert(figure, values, frame, "statistic")  # `(x - x.mean(0)) / x.std(0)`: each row meets all of them
            elif ops.statistic(ops.without_grad(values)):
                self.machine.spoil()
                self.facts.trained_statistics.add(figure)
        objects = frozenset(v for v in left | right if isinstance(v, Made | Box) and not self._is_device(v) and not is_number(v))
        figure, other, operand = (left, right, node.left) if ops.spreads(left) else (right, left, node.right)
        result = ops.made_of(ops.combine(node.op, left, right, node.right), [figure, other], operand)  # `1 / counts`, `loss**2`
        return result | (objects if isinstance(node.op, ast.Add) else UNKNOWN) | self.counted(node, left, right)

    def _is_device(self, value: Value) -> bool:
        return isinstance(value, Made) and value.role is Role.DEVICE

    def on_UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> Values:
        values = self.eval(node.operand, frame)
        return frozenset(locals_of(values)) if isinstance(node.op, ast.USub | ast.Invert) else UNKNOWN

    def on_BoolOp(self, node: ast.BoolOp, frame: Frame) -> Values:
        found: Values = UNKNOWN
        for value in node.values:
            found |= self.eval(value, frame)
        return found

    def on_Compare(self, node: ast.Compare, frame: Frame) -> Values:
        values = [self.eval(operand, frame) for operand in (node.left, *node.comparators)]
        if any(Spread.SHARD in ops.spreads(v) for v in values):
            for operand, value in zip((node.left, *node.comparators), values, strict=True):
                if ops.statistic(ops.without_grad(value)):
                    self.convert(operand, value, frame, "statistic")
            return ops.without_grad(ops.local(Spread.SHARD, *values, truth=True))
        if not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn) and not self._picks_elements(node):
            for operand, value in zip((node.left, *node.comparators), values, strict=True):
                if ops.spreads(value) and not ops.spreads(value) & {Spread.COUNT, Spread.RATE}:
                    self.convert(operand, value, frame, "test")
            if len(values) == 2:
                self._compare_count((node.left, values[0]), (node.comparators[0], values[1]), frame)
        return UNKNOWN

    def _compare_count(self, left: tuple[ast.expr, Values], right: tuple[ast.expr, Values], frame: Frame) -> None:
        """`if len(x) < batch_size`: the size of the batch is meant, where the other side does not come from this batch.

        A function that is called for each row measures things of that row.
        """
        if self.machine.for_rows:
            return
        for (count, values), (bound, others) in ((left, right), (right, left)):
            per_batch = not self.machine.loader_loops or (isinstance(bound, ast.Name) and self._is_per_batch(bound.id, frame))
            if ops.spreads(values) == {Spread.COUNT} and not locals_of(others) and isinstance(bound, ast.Constant | ast.Attribute | ast.Name) and not per_batch:
                self.convert(count, values, frame, "count")

    def _picks_elements(self, node: ast.Compare) -> bool:
        """Whether `node` is the mask of `torch.where(sums == 0, a, b)` or `x.masked_fill(sums == 0, 1)`: no decision."""
        call = self.facts.parents.get(node)
        name = self.facts.text(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
        return name in {"where", "masked_fill", "masked_fill_"}

    def on_IfExp(self, node: ast.IfExp, frame: Frame) -> Values:
        self.test(node.test, frame)
        return self.eval(node.body, frame) | self.eval(node.orelse, frame)

    def on_NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> Values:
        values = self.eval(node.value, frame)
        self.machine.assign(node.target, values, frame, self._statement(node))  # type: ignore[arg-type]
        return values

    def on_Lambda(self, node: ast.Lambda, frame: Frame) -> Values:
        for default in node.args.defaults:
            self.machine.write_heap(default, "default", self.eval(default, frame))
        return frozenset({Function(node, self.facts.scopes[node])})

    def on_Starred(self, node: ast.Starred, frame: Frame) -> Values:
        return self.eval(node.value, frame)

    def on_Call(self, node: ast.Call, frame: Frame) -> Values:
        return self.calls.call(node, frame)

    def decorate(self, decorator: ast.expr, decorated: Values, frame: Frame) -> None:
        """A decorator of the project is run for its effects (a registry keeps what it is given); the name keeps its value."""
        for value in in_order(self.eval(decorator, frame)):
            if isinstance(value, Function):
                bound = frozenset({value.receiver}) if value.receiver is not None else None
                env = self.machine.function_env(value.node, [decorated], {}, bound)
                self.machine.run_function(value.node, value.scope, env, value.receiver)

    def test(self, node: ast.expr, frame: Frame) -> None:
        """A condition: a local value in it sends the processes different ways."""
        values = self.eval(node, frame)
        if ops.spreads(values) & {Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.MIXED}:
            self.convert(node, values, frame, "test")

    def branch(self, test: ast.expr, frame: Frame) -> bool | None:
        """Whether a test of one value holds, as far as it is known: `labels is None` of rows, `self.reduction == "mean"`."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.comparators[0], ast.Constant):
            return None
        wanted, op = test.comparators[0].value, test.ops[0]
        if wanted is None and isinstance(op, ast.Is | ast.IsNot) and isinstance(test.left, ast.Name):
            values = frame.env.get(test.left.id, UNKNOWN)
            return isinstance(op, ast.IsNot) if ops.spreads(values) == {Spread.SHARD} and len(values) == 1 else None
        if isinstance(wanted, str) and isinstance(op, ast.Eq | ast.NotEq):
            known = self._only_string(test.left, frame)
            return None if known is None else (known == wanted) is isinstance(op, ast.Eq)
        return None

    def _only_string(self, node: ast.expr, frame: Frame) -> str | None:
        """The one string that a parameter, or an attribute of every instance, holds."""
        if isinstance(node, ast.Name):
            values = frame.env.get(node.id, UNKNOWN)
        elif isinstance(node, ast.Attribute) and frame.receiver is not None and isinstance(node.value, ast.Name):
            if frame.env.get(node.value.id) != frozenset({frame.receiver}) or self.machine.read_attribute(frame.receiver, f"unknown {node.attr}"):
                return None
            values = self.machine.read_attribute(frame.receiver, node.attr)
        else:
            return None
        value = next(iter(values), None)
        return value.value if len(values) == 1 and isinstance(value, Literal) and isinstance(value.value, str) else None

    def convert(self, node: ast.expr, values: Values, frame: Frame, how: str) -> None:
        """Notes that the value of `node` leaves the tensors here."""
        if how == "test" and ops.spreads(values) == {Spread.ROW}:
            return  # asked of one row, for that row
        if any(v.whole for v in locals_of(values)) or (how == "print" and self._is_complaint(node)):
            return  # every process has the whole batch; what it complains of is its own
        if (Spread.COUNT not in ops.spreads(values) or asks_for_any(self.facts, node)) and any(isinstance(a, ast.Assert) for a in self.facts.ancestors(node)):
            return  # each process checks its own rows
        if isinstance(node, ast.Name) and ops.spreads(values) in ({Spread.COUNT}, {Spread.RATE}) and (parts := self._parts(node, frame)) != [node]:
            for part in parts:
                self.convert_leaves(part, frame, how)
            return
        if locals_of(values):
            self.machine.do(note_conversion, node, values, frame.scope, how)

    def disables_grad(self, node: ast.expr, frame: Frame) -> bool:
        """Whether `node`, a context manager or decorator, is `torch.no_grad()` or its kin."""
        callee = node.func if isinstance(node, ast.Call) else node
        refs = {v.name for v in self.eval(callee, frame) if isinstance(v, Ref)}
        if refs & catalog.NO_GRAD:
            return True
        return "torch.set_grad_enabled" in refs and isinstance(node, ast.Call) and any(
            isinstance(a, ast.Constant) and a.value is False for a in node.args
        )

