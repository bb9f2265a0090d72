"""State that outlives the batch: running statistics, centres, codebooks, queues. What goes into it is the global batch's.

A variable or attribute is such state where its new value is computed from its old one (`c = 0.9 * c + 0.1 * x.mean(0)`,
`c.mul_(0.9).add_(...)`, `queue[start:end] = rows`), and no gradient flows through it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.accumulators import indices
from accel_migrate.facts.effects import external_name
from accel_migrate.facts.values import Local, Role, Spread, Values, altered, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame

Place = ast.Name | ast.Attribute


class States:
    """Part of `Evaluator`."""

    def carried(self, target: ast.expr, value: ast.expr, values: Values, frame: Frame) -> Values:
        """What `target = value` stores; local figures are made global where `target` carries them to later batches."""
        if not locals_of(values) or Spread.ROW in ops.spreads(values):
            return values
        if all(v.spread is Spread.SHARD and v.axis == 1 and v.rank == 3 for v in locals_of(values)):
            return values  # the state of a recurrent layer goes on with the rows of the next batch
        if not isinstance(target, Place) or not self._outlives(target, frame) or not self._reads(value, target, frame):
            return values
        if isinstance(target, ast.Attribute) and any(v.grad or v.spread is Spread.SHARD for v in locals_of(values)):
            return values
        if any(v.grad for v in locals_of(values)) and not self.is_cut(value) and self._reaches_backward(target):
            return values  # `loss = loss + criterion(...)`: the backward pass starts from all batches
        if Spread.SHARD in ops.spreads(values) and _detached(value) == self.facts.text(target):
            return values  # `state = state.detach()`: rows that go on with those of the next batch
        self.convert_leaves(value, frame)
        return frozenset(v for v in values if not isinstance(v, Local))

    def changed_in_place(self, node: ast.Call, func: ast.Attribute, args: Arguments, frame: Frame) -> bool:
        """Notes a method that changes a tensor in place; whether that tensor is state, equal on all processes."""
        root = _root(func.value)
        if func.attr not in catalog.IN_PLACE or not isinstance(root, Place) or locals_of(self.facts.of(root)):
            return False
        if not self._outlives(root, frame) or self._feeds_backward(root, frame):
            return False
        overwrites = func.attr in {"copy_", "fill_"}
        given = [*zip(args.nodes, args.positional, strict=True), *((args.keyword_nodes[k], v) for k, v in args.keywords.items())]
        for argument, values in [*given, *_entries(given, self.facts.of)]:
            figures = ops.spreads(values) - {Spread.ROW}
            if figures and (Spread.SHARD not in figures or func.attr in catalog.IN_PLACE_AT) and (not overwrites or self._reads(argument, root, frame)):
                self.convert_leaves(argument, frame)
        return True

    def refilled(self, func: ast.Attribute, args: Arguments, frame: Frame) -> None:
        """`image.resize_(x.size()).copy_(x)`: from here on the variable holds the rows of this batch."""
        name, resized = _resized(func.value)
        if func.attr != "copy_" or not resized or name is None or not args.positional:
            return
        rows = frozenset(altered(v, host=False, batch=False) for v in locals_of(args.positional[0]) if v.spread is Spread.SHARD)
        if rows:
            self.machine.write_name(name, rows, frame)
            self.machine.write_heap(frame.scope.node, f"refilled {name}", rows)

    def refilled_by(self, function: ast.AST, names: list[str], args: Arguments, frame: Frame) -> None:
        """Variables handed to `function`, which puts rows into its parameters `names`."""
        for name, node, values in zip(names, args.nodes, args.positional, strict=False):
            rows = self.machine.read_heap(function, f"refilled {name}")
            given = {v.spread for other in args.positional for v in locals_of(other)}
            if rows and isinstance(node, ast.Name) and not locals_of(values) and Spread.SHARD in given:
                self.machine.write_name(node.id, rows, frame)

    def _outlives(self, place: Place, frame: Frame) -> bool:
        """Whether `place` keeps its value from one batch to the next."""
        if isinstance(place, ast.Name):
            return bool(self.machine.loader_loops) and not self._is_per_batch(place.id, frame)
        in_model = frame.receiver is not None and self.facts.role(frame.receiver) in {Role.MODEL, Role.CRITERION}
        return (in_model and self.machine.given_rows) or bool(self.machine.loader_loops)

    def _reads(self, value: ast.expr, place: Place, frame: Frame) -> bool:
        """Whether `value` is computed from `place`, in its own statement or through variables of the function."""
        wanted, seen = self.facts.text(place), set[str]()
        pending: list[ast.AST] = [value]
        while pending:
            for node in ast.walk(pending.pop()):
                if isinstance(node, Place) and isinstance(node.ctx, ast.Load) and self.facts.text(node) == wanted:
                    return True
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in seen:
                    seen.add(node.id)
                    pending.extend(self._assigned(node.id, frame))
        return False

    def _assigned(self, name: str, frame: Frame) -> list[ast.expr]:
        """The values that the running function, or module body, assigns to its variable `name`."""
        if frame.scope.owner(name) is not frame.scope:
            return []
        names = self.facts.names(frame.scope.node, name)
        stores = [s for n in names if isinstance(s := self.facts.parents.get(n), ast.Assign) and any(n is target for target in s.targets)]
        return [s.value for s in stores if self.facts.scope(s) is frame.scope]

    def returned(self, node: ast.expr, values: Values, frame: Frame) -> Values:
        """What a function returns for `hits / len(rows)`: where the hits are those of all processes by then, so is the rate."""
        if ops.spreads(values) != {Spread.RATE} or not isinstance(node, ast.BinOp) or not self._counts_all(node.left, frame):
            return values
        self.convert_leaves(node.right, frame, "collect")
        return frozenset(v for v in values if not isinstance(v, Local))

    def _counts_all(self, figure: ast.expr, frame: Frame) -> bool:
        """Whether `figure` was computed from something that was made global on the way."""
        self.machine.spoil()
        sources: list[ast.expr] = [figure]
        for name in (n.id for n in ast.walk(figure) if isinstance(n, ast.Name)):
            for node in ast.walk(frame.scope.node):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AugAssign) else None
                if isinstance(target, ast.Name) and target.id == name:
                    sources.append(node.value)  # type: ignore[attr-defined]
        return any(part in self.facts.conversions for source in sources for part in ast.walk(source))

    def convert_leaves(self, value: ast.expr, frame: Frame, how: str = "state", inside: frozenset[ast.expr] = frozenset()) -> None:
        """Inside linear arithmetic, each part that differs between processes becomes the global batch's.

        `inside` are the expressions of which `value` is a part: `n = n + len(x)` is computed from itself.
        """
        if value in inside or not locals_of(self.facts.of(value)):
            return
        for part in self._parts(value, frame):
            if part is value:
                self.convert(value, self.facts.of(value), frame, how)
                for bound in indices(value.slice) if isinstance(value, ast.Subscript) else []:
                    self.convert_leaves(bound, frame, how)
            else:
                self.convert_leaves(part, frame, how, inside | {value})

    def _parts(self, value: ast.expr, frame: Frame) -> list[ast.expr]:
        """The operands in `value` to make global; `value` itself where its own figure can be."""
        if isinstance(value, ast.BinOp):
            return self._factors(value, frame)
        if isinstance(value, ast.UnaryOp):
            return [value.operand]
        if isinstance(value, ast.Call) and len(value.args) == 1 and self.machine.ask(external_name, value) in catalog.PARAMETER_MAKERS:
            return value.args
        if isinstance(value, ast.Name) and ops.spreads(self.facts.of(value)) in ({Spread.COUNT}, {Spread.RATE}):
            computed = [v for v in self._assigned(value.id, frame) if isinstance(v, ast.BinOp) or self._is_choice(v)]
            return list(computed) or [value]  # `end = start + len(x)`
        if self._is_choice(value):
            return [argument for argument in value.args if locals_of(self.facts.of(argument))]  # type: ignore[attr-defined]
        return [value]

    def _factors(self, value: ast.BinOp, frame: Frame) -> list[ast.expr]:
        """The operands of `value` that are made global, each by itself; `value` where one reduction of the whole does."""
        local = [side for side in (value.left, value.right) if locals_of(self.facts.of(side))]
        rows = Spread.SHARD in ops.spreads(self.facts.of(value))
        if isinstance(value.op, ast.Pow):
            return [value.left] if local == [value.left] and not rows else [value]
        if not isinstance(value.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Mod):
            return [value]
        if len(local) == 1 or isinstance(value.op, ast.Add | ast.Sub):
            return local
        apart = Spread.MIXED in ops.spreads(self.facts.of(value)) or any(self._counts_more(side, frame) for side in local)
        return local if apart and not rows else [value]

    def _counts_more(self, side: ast.expr, frame: Frame) -> bool:
        """Whether `side` is a number of rows of this batch and of others: `count + len(x)`, or a variable with that."""
        if ops.spreads(self.facts.of(side)) != {Spread.COUNT}:
            return False
        if isinstance(side, ast.Name):
            return self._parts(side, frame) != [side]
        return isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add | ast.Sub)

    def _is_choice(self, value: ast.expr) -> bool:
        return isinstance(value, ast.Call) and self.machine.ask(external_name, value) in {"min", "max"} and ops.spreads(self.facts.of(value)) == {Spread.COUNT}


def _detached(value: ast.expr) -> str:
    """`h` of `h.detach()`, `h.data` and `h.detach().clone()`."""
    while True:
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {*catalog.DETACHING, "clone"}:
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr == "data":
            value = value.value
        else:
            return ast.unparse(value)


def _entries(given: list[tuple[ast.expr, Values]], values_of: Callable[[ast.expr], Values]) -> list[tuple[ast.expr, Values]]:
    """The tensors of `index_put_((y, predicted), ...)`."""
    return [(entry, values_of(entry)) for argument, _ in given if isinstance(argument, ast.Tuple) for entry in argument.elts]


def _resized(node: ast.expr) -> tuple[str | None, bool]:
    """The variable behind `image.data.resize_(n)`, and whether it is resized there."""
    resized = False
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"resize_", "resize_as_"}:
            node, resized = node.func.value, True
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return None, False
    return node.id, resized


def _root(node: ast.expr) -> ast.expr:
    """`c` of `c.data` and of `c.mul_(0.9)`, which gives `c` back."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in catalog.IN_PLACE:
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return node


