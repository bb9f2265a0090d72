"""What Python's own functions do to abstract values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.parts import is_parts
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    Local,
    Made,
    ModuleValue,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    locals_of,
    made,
)

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame


class Builtins:
    """Part of `Library`."""

    def f_next(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name != "next":
            return self.calls.unknown(node, args)
        loaders = self.evaluator.loaders_of(args.get(0, ""))
        if loaders:
            self.machine.spoil()
        self.facts.drawn |= loaders
        return ops.taken_at(node, self.evaluator.iterate(args.get(0, ""), frame))

    def f_sum(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """The built-in adds what a container holds: losses give a loss, rows of a tensor their sum."""
        values = args.get(0, "iterable")
        if name != "sum":
            return self.tensor_function(name, "sum", node, args, frame)
        if Spread.SHARD in ops.spreads(values) and self._runs_over_rows(node.args[0] if node.args else node):
            return ops.local(Spread.SUM, values)
        elements = frozenset(locals_of(values) or locals_of(self.evaluator.iterate(values, frame)))
        kinds = ops.spreads(elements)
        return elements if len(kinds) <= 1 and kinds != {Spread.RATIO} else ops.local(Spread.MIXED, elements)

    def _runs_over_rows(self, iterable: ast.expr) -> bool:
        """Whether `iterable` yields one value for each row of a batch."""
        if not isinstance(iterable, ast.GeneratorExp | ast.ListComp):
            return True
        iterated = (locals_of(self._iterated(generator.iter)) for generator in iterable.generators)
        return any(v.spread is Spread.SHARD and not v.batch and not v.output for found in iterated for v in found)

    def _iterated(self, node: ast.expr) -> Values:
        """What a loop over `node` runs over, through `zip` and `enumerate`."""
        values = self.facts.of(node)
        sources = [self.machine.read_heap(v, "sources") for v in values if isinstance(v, Made) and v.detail.startswith("iter:")]
        return values.union(*sources)

    def f_len(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if any(v.reduced is not None for v in locals_of(args.get(0, ""))):
            return args.get(0, "")  # as many as the classes that occur in all rows
        if node.args and is_parts(self.facts, node.args[0]):
            return UNKNOWN
        return ops.row_count(args.get(0, "")) if Spread.SHARD in ops.spreads(args.get(0, "")) else UNKNOWN

    def f_float(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        values = args.get(0, "")
        if ops.spreads(values) == {Spread.SUM} and self.evaluator.is_size(node):
            return ops.without_grad(frozenset(locals_of(values)))  # as many as this process has
        if ops.spreads(values) - {Spread.COUNT}:
            self.evaluator.convert(node.args[0], values, frame, "item")
            return UNKNOWN
        return frozenset(locals_of(values))

    f_int = f_float

    def f_print(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        self.show(node, args, frame)
        return UNKNOWN

    def show(self, node: ast.Call, args: Arguments, frame: Frame) -> None:
        """Every local value among the arguments is shown to a person or a tool."""
        for arg in [*node.args, *(k.value for k in node.keywords)]:
            self.show_expression(arg, frame)
            self.evaluator.keep_results(self.facts.of(arg), node)

    def show_expression(self, node: ast.expr, frame: Frame) -> None:
        values = self.facts.of(node)
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self.show_expression(part.value, frame)
        elif locals_of(values):
            self.evaluator.convert(node, values, frame, "print")
        elif made(values, Role.SHAPE) and (rows := _shaped(node)) is not None:
            self.evaluator.convert(rows, self.facts.of(rows), frame, "print")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            self.show(node, None, frame)  # type: ignore[arg-type]
        elif isinstance(node, ast.Dict):
            for value in node.values:
                self.show_expression(value, frame)
        elif isinstance(node, ast.Tuple | ast.List):
            for value in node.elts:
                self.show_expression(value, frame)

    def f_min(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name.startswith("torch.") and self._compares_figures(args, frame):
            return UNKNOWN
        if name not in {"min", "max"} or self.calls.takes_shard(args):
            return self.tensor_function(name, name.rpartition(".")[2], node, args, frame)
        for argument, values in zip(args.nodes, args.positional, strict=True):
            if ops.spreads(values) - {Spread.COUNT, Spread.RATE}:
                self.evaluator.convert(argument, values, frame, "test")  # Python's own, which compares
        return frozenset(v for values in args.positional for v in locals_of(values) if v.spread in {Spread.COUNT, Spread.RATE})

    f_max = f_minimum = f_maximum = f_min

    def _compares_figures(self, args: Arguments, frame: Frame) -> bool:
        """`torch.minimum(best, loss.detach())`: the smaller of two global figures, unless gradients flow through one."""
        figures = [(node, values) for node, values in zip(args.nodes, args.positional, strict=True) if ops.spreads(values)]
        if len(args.nodes) != 2 or not figures or self.calls.takes_shard(args) or not all(self.evaluator.is_cut(node) for node, _ in figures):
            return False
        for node, values in figures:
            self.evaluator.convert(node, values, frame, "test")
        return True

    def f_str(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in {"str", "repr", "format"} and node.args:
            self.show_expression(node.args[0], frame)
        return UNKNOWN

    f_repr = f_format = f_str

    def f_dict(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`dict(loss=loss)` holds what a dict display would."""
        box = self.evaluator.box(node)
        for values in args.positional:
            for inner in values:
                self.evaluator._copy_box(inner, box)
        for key, values in args.keywords.items():
            self.machine.write_heap(box, key, self.evaluator._converted_if_kept(args.keyword_nodes[key], values, frame))
        return frozenset({box})

    def f_defaultdict(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """Containers of the standard library: what is put into them stays known."""
        if not name.startswith("collections."):
            return self.calls.unknown(node, args)
        box = self.evaluator.box(node)
        for i, values in enumerate(args.positional if name.endswith("OrderedDict") else []):
            for pair in self.evaluator._deep(values):
                self.machine.write_heap(box, f"pair {i}", self.evaluator._element(pair, 1) if isinstance(pair, Box) else UNKNOWN)
        return frozenset({box})

    f_OrderedDict = f_deque = f_defaultdict

    def f_list(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        values = args.get(0, "")
        kept = frozenset(v for v in values if isinstance(v, Made | Box | Local))
        return kept

    f_tuple = f_list

    def f_getattr(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        key = args.literal(1, "name")
        if isinstance(key, str):
            found: set[Value] = set()
            for value in in_order(args.get(0, "object")):
                found |= self.evaluator.attribute(value, key, node, frame)
                if isinstance(value, ModuleValue) and not isinstance(args.node(1, "name"), ast.Constant):
                    found |= self.evaluator.any_member(value)  # a setting: the name may be another one
            return frozenset(found)
        return self.evaluator.element(frozenset(v for v in args.get(0, "object") if isinstance(v, Ref | ModuleValue)), "*", frame)

    def f_import_module(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`importlib.import_module("package.module")`, and `__import__`, which gives the package."""
        module = args.literal(0, "name")
        self.machine.spoil()
        if not isinstance(module, str) or module.startswith("."):
            return frozenset({Ref(CHOSEN)})
        return self.evaluator.imported(module.partition(".")[0] if name == "__import__" else module, None, frame)

    f___import__ = f_import_module

    def f_namedtuple(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return frozenset({Made(Role.OBJECT, node, "namedtuple")})

    def f_partial(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """`functools.partial(f, ...)`: called later, with these arguments and more."""
        value = Made(Role.OBJECT, node, "partial")
        for i, values in enumerate(args.positional):
            self.machine.write_heap(value, i, values)
        for key, values in args.keywords.items():
            self.machine.write_heap(value, key, values)
        return frozenset({value})

    def f_filter(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return args.get(1, "iterable")

    def f_map(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        self.calls._note_closures(args)
        wrapper = Made(Role.OBJECT, node, "iter:map")
        mapped = args.get(1, "")
        self.machine.write_heap(wrapper, "yields", self.evaluator.iterate(mapped, frame))
        for box in mapped:  # `x, y = map(Variable, (x, y))`
            for i in range(len(box.site.elts)) if isinstance(box, Box) and isinstance(box.site, ast.Tuple | ast.List) else ():
                self.machine.write_heap(wrapper, f"[{i}]", self.evaluator.element(frozenset({box}), i, frame))
        return frozenset({wrapper})

    def f_super(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return frozenset({Made(Role.OBJECT, node, "super")})


CHOSEN = "<chosen>"
"""Stands for the name of a module that only the run knows: what it makes is as unknown as what any library makes."""


def _shaped(node: ast.expr) -> ast.expr | None:
    """`x` of `x.shape`, `x.size()` and of a list of either."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"list", "tuple"} and len(node.args) == 1:
        return _shaped(node.args[0])
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args:
        return node.func.value
    return None
