"""What the functions and methods of PyTorch, Python and common libraries do to abstract values."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    Function,
    Instance,
    Local,
    Made,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    locals_of,
    made,
)

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments, Calls
    from accel_migrate.facts.machine import Frame


class Library:
    """Effects of library calls, by full name."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.facts = calls.facts
        self.machine = calls.machine
        self.evaluator = calls.evaluator
        self._ignored_marks: bool | None = None

    # -- functions ----------------------------------------------------------------------------------
    def call(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        self.calls._note_closures(args)
        if name in catalog.DATA_PARALLEL | catalog.DISTRIBUTED_DATA_PARALLEL | catalog.IDENTITIES:
            return args.get(0, "module")
        if name in catalog.DEEP_COPIES:
            return frozenset(self.copied(value, node) for value in args.get(0, "x"))
        role = catalog.role_of(name)
        if role is not None:
            return self.make(role, name, node, args)
        if name in catalog.BATCH_WRAPPERS:
            return self.wrap_iterable(name, node, args, frame)
        last = name.rpartition(".")[2]
        handler = getattr(self, f"f_{last}", None)
        if handler is not None:
            return handler(name, node, args, frame)
        if last in catalog.REDUCED_LOSSES and name.startswith("torch."):
            return self.loss(name, node, args)
        if name.startswith(("torch.", "numpy.", "sklearn.", "torchmetrics.")) or name in {"sum", "abs", "max", "min", "round"}:
            return self.tensor_function(name, last, node, args, frame)
        if name == "torch.autograd.grad":
            return UNKNOWN
        return self.calls.unknown(node, args)

    def copied(self, value: Value, node: ast.Call) -> Value:
        """A copy of a model is a model of its own, trained only if an optimizer gets its parameters too."""
        if self.facts.role(value) is not Role.MODEL or not isinstance(value, Made | Instance):
            return value
        self.facts.copied_models.add(value.site)
        return replace(value, site=node)

    def make(self, role: Role, name: str, node: ast.Call, args: Arguments) -> Values:
        value = Made(role, node, name)
        if role is Role.OPTIMIZER:
            self.note_optimized(value, args)
        if role is Role.MODEL:
            self._note_parts(value, args)
        if role in {Role.CRITERION, Role.OPTIMIZER, Role.LOADER, Role.SCHEDULER, Role.METRIC_SCHEDULER}:
            for i, values in enumerate(args.positional):
                self.machine.write_heap(value, f"argument {i}", values)
            for key, values in args.keywords.items():
                self.machine.write_heap(value, f"argument {key}", values)
        return frozenset({value})

    def _note_parts(self, whole: Made, args: Arguments) -> None:
        for values in args.all():
            for part in self.evaluator._deep(values):
                if self.facts.role(part) is Role.MODEL:
                    self.facts.parts_of[part.site].add(whole.site)  # type: ignore[union-attr]

    def note_optimized(self, optimizer: Made | Instance, args: Arguments) -> None:
        """Remembers whose parameters `optimizer` was given."""
        pending = [v for values in args.all()[:1] for v in values]
        seen: set[Value] = set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, Made) and value.role is Role.PARAMETERS:
                self.facts.optimized[optimizer.site].add(value.site)
            elif isinstance(value, Box):
                pending.extend(self.evaluator._all_elements(value))
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                pending.extend(self.machine.read_heap(value, "yields"))
        self.facts.optimized.setdefault(optimizer.site, set())

    def wrap_iterable(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        role = Role.PROGRESS if name in catalog.PROGRESS_BARS else Role.OBJECT
        wrapper = Made(role, node, f"iter:{name}")
        for values in args.positional or [args.get(0, "iterable")]:
            self.machine.write_heap(wrapper, "sources", values)
        elements = [self.evaluator.iterate(values, frame) for values in args.positional] or [self.evaluator.iterate(args.get(0, "iterable"), frame)]
        if name == "enumerate":
            box = self.evaluator.box(node)
            self.machine.write_heap(box, 0, UNKNOWN)
            self.machine.write_heap(box, 1, ops.taken_at(node.args[0], elements[0]) if node.args else elements[0])
            self.machine.write_heap(wrapper, "yields", frozenset({box}))
        elif name == "zip":
            box = self.evaluator.box(node)
            for i, values in enumerate(elements):
                self.machine.write_heap(box, i, ops.taken_at(node.args[i], values) if i < len(node.args) else values)
            self.machine.write_heap(wrapper, "yields", frozenset({box}))
        else:
            self.machine.write_heap(wrapper, "yields", frozenset().union(*elements[: None if name == "itertools.chain" else 1]))
        return frozenset({wrapper})

    def f_next(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name != "next":
            return self.calls.unknown(node, args)
        self.facts.drawn |= self.evaluator.loaders_of(args.get(0, ""))
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
        return any(Spread.SHARD in ops.spreads(self._iterated(generator.iter)) for generator in iterable.generators)

    def _iterated(self, node: ast.expr) -> Values:
        """What a loop over `node` runs over, through `zip` and `enumerate`."""
        values = self.facts.of(node)
        sources = [self.machine.read_heap(v, "sources") for v in values if isinstance(v, Made) and v.detail.startswith("iter:")]
        return values.union(*sources)

    def f_len(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return ops.row_count(args.get(0, "")) if Spread.SHARD in ops.spreads(args.get(0, "")) else UNKNOWN

    def f_float(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        values = args.get(0, "")
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

    def show_expression(self, node: ast.expr, frame: Frame) -> None:
        values = self.facts.of(node)
        if isinstance(node, ast.JoinedStr):
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    self.show_expression(part.value, frame)
        elif locals_of(values):
            self.evaluator.convert(node, values, frame, "print")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            self.show(node, None, frame)  # type: ignore[arg-type]
        elif isinstance(node, ast.Dict):
            for value in node.values:
                self.show_expression(value, frame)
        elif isinstance(node, ast.Tuple | ast.List):
            for value in node.elts:
                self.show_expression(value, frame)

    def f_min(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name not in {"min", "max"} or self.calls.takes_shard(args):
            return self.tensor_function(name, name.rpartition(".")[2], node, args, frame)
        for argument, values in zip(args.nodes, args.positional, strict=True):
            if ops.spreads(values) - {Spread.COUNT, Spread.RATE}:
                self.evaluator.convert(argument, values, frame, "test")  # Python's own, which compares
        return frozenset(v for values in args.positional for v in locals_of(values) if v.spread in {Spread.COUNT, Spread.RATE})

    f_max = f_min

    def f_str(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in {"str", "repr", "format"} and node.args:
            self.show_expression(node.args[0], frame)
        return UNKNOWN

    f_repr = f_format = f_str

    def f_list(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        values = args.get(0, "")
        kept = frozenset(v for v in values if isinstance(v, Made | Box | Local))
        return kept

    f_tuple = f_list

    def f_getattr(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        key = args.literal(1, "name")
        if isinstance(key, str):
            found: set[Value] = set()
            for value in args.get(0, "object"):
                found |= self.evaluator.attribute(value, key, node, frame)
            return frozenset(found)
        return self.evaluator.element(frozenset(v for v in args.get(0, "object") if isinstance(v, Ref)), "*", frame)

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
        self.machine.write_heap(wrapper, "yields", self.evaluator.iterate(args.get(1, ""), frame))
        return frozenset({wrapper})

    def f_super(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return frozenset({Made(Role.OBJECT, node, "super")})

    def f_save(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in {"torch.save", "numpy.save"} and node.args:
            self.show_expression(node.args[0 if name == "torch.save" else -1], frame)
        return UNKNOWN

    def f_save_image(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if node.args:
            self.show_expression(node.args[0], frame)
        return UNKNOWN

    f_make_grid = None

    # -- tensors ------------------------------------------------------------------------------------
    def tensor_function(self, name: str, last: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        inputs = [self.evaluator._deep(v) for v in args.all()]
        first = inputs[0] if inputs else UNKNOWN
        if last in catalog.FINITENESS and node.args and self._asks_of_figure(node.args[0], first, frame):
            return UNKNOWN
        shaped = any(Spread.COUNT in ops.spreads(v) or made(v, Role.SHAPE) for v in inputs)
        if name in catalog.RANDOM_DRAWS and shaped:
            return frozenset({Local(Spread.SHARD)})
        if name in {"torch.tensor", "torch.as_tensor"} and ops.spreads(first) and not ops.spreads(first) - {Spread.COUNT, Spread.RATE}:
            self.evaluator.convert(node.args[0], first, frame, "collect")
            return UNKNOWN
        if name in catalog.TENSOR_MAKERS and not shaped:
            return _strongest(inputs)
        if name in catalog.TENSOR_MAKERS:
            return frozenset({Local(Spread.SHARD)})
        if last in {"zeros", "ones", "full", "empty", "arange", "linspace", "rand", "randn", "randint", "randperm", "tensor"}:
            return frozenset({Local(Spread.SHARD)}) if shaped else UNKNOWN
        if last in {"stack", "cat", "concat", "concatenate", "vstack", "hstack"}:
            return _strongest(inputs)
        shard = any(Spread.SHARD in ops.spreads(v) for v in inputs)
        if shard and (Spread.SHARD in ops.spreads(first) or not locals_of(first)):
            if last in catalog.ROW_REDUCTIONS or last in catalog.OTHER_REDUCTIONS:
                return ops.tensor_method(last, first, self.dims(args, 1), inputs)
            return ops.local(Spread.SHARD, *inputs)
        return frozenset(locals_of(ops.tensor_method(last, first, self.dims(args, 1), inputs[1:])))

    def tensor_method(self, node: ast.Call, func: ast.Attribute, base: Values, args: Arguments, frame: Frame) -> Values:
        name = func.attr
        if name in {"item", "tolist", "numpy"} and ops.spreads(base) == {Spread.ROW}:
            return base
        if name == "item" and ops.spreads(base):
            self.evaluator.convert(func.value, base, frame, "item")
            return UNKNOWN
        if name in catalog.HOST_CONVERSIONS and locals_of(base):
            self.evaluator.convert(func.value, base, frame, "array")
            return UNKNOWN
        if name == "size" and Spread.SHARD in ops.spreads(base):
            if not node.args:
                return frozenset({Made(Role.SHAPE, node, "shape")})
            return ops.row_count(base) if args.literal(0, "dim") == 0 else UNKNOWN
        if name in {"numel", "nelement", "__len__"} and Spread.SHARD in ops.spreads(base):
            return ops.row_count(base)
        if name in {"dim", "type", "get_device"} and not node.args:
            return UNKNOWN
        if name in catalog.FINITENESS and self._asks_of_figure(func.value, base, frame):
            return UNKNOWN
        if name == "format":
            self.show(node, args, frame)
            return UNKNOWN
        inputs = [self.evaluator._deep(v) for v in args.all()]
        return ops.tensor_method(name, base, self.dims(args, 0), inputs)

    def _asks_of_figure(self, node: ast.expr, values: Values, frame: Frame) -> bool:
        """`torch.isnan(loss)`: the processes must agree, so the question is about the global figure."""
        if not ops.spreads(values) or Spread.SHARD in ops.spreads(values):
            return False
        self.evaluator.convert(node, values, frame, "test")
        return True

    def dims(self, args: Arguments, position: int) -> list[object] | None:
        """The literal dimensions of a reduction; None where it reduces everything."""
        node = args.node(position, "dim") or args.node(position, "axis")
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return None
        nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node]
        return [n.value if isinstance(n, ast.Constant) else ast.unparse(n) for n in nodes]

    def loss(self, name: str, node: ast.Call, args: Arguments) -> Values:
        """A functional loss: `F.cross_entropy(input, target, ...)`."""
        last = name.rpartition(".")[2]
        if args.keywords.get("reduce"):
            return ops.local(Spread.MIXED, *args.all()) if self.calls.takes_shard(args) else UNKNOWN
        reduction = args.literal(99, "reduction") or ("sum" if args.literal(99, "size_average") is False else "mean")
        spread = ops.loss_spread(last, reduction, args.all())
        return self._weighted(last, spread, args.node(99, "weight"), args.node(99, "ignore_index"), args.node(1, "target"))

    def criterion(self, made_by: Made, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """A call of a loss module made by the library."""
        made_call = made_by.site
        assert isinstance(made_call, ast.Call)
        keywords = {k.arg: k.value for k in made_call.keywords}
        reduction = _literal(keywords.get("reduction")) or ("sum" if _literal(keywords.get("size_average")) is False else "mean")
        last = made_by.detail.rpartition(".")[2]
        spread = ops.loss_spread(last, reduction, [self.evaluator._deep(v) for v in args.all()])
        weight = keywords.get("weight") or (made_call.args[0] if made_call.args and last in catalog.CLASS_WEIGHTED_LOSSES else None)
        return self._weighted(last, spread, weight, keywords.get("ignore_index"), args.node(1, "target"))

    def _weighted(self, name: str, spread: Values, weight: ast.expr | None, ignored: ast.expr | None, target: ast.expr | None) -> Values:
        """A weighted mean has the sum of its weights as denominator, not the number of rows."""
        if ops.spreads(spread) == {Spread.RATIO} and (weight or ignored) is not None:  # of rows chosen by a mask, too
            return frozenset(replace(v, weight="", parts=()) for v in locals_of(spread))
        if ops.spreads(spread) != {Spread.MEAN} or name not in catalog.CLASS_WEIGHTED_LOSSES or target is None:
            return spread
        if weight is None and ignored is None:
            if not self.marks_ignored():
                return spread
            return frozenset(replace(v, spread=Spread.RATIO, weight="({target} != -100).sum()", parts=(("target", target),)) for v in locals_of(spread))
        template, parts = _denominator(weight, ignored, target)
        return frozenset(replace(v, spread=Spread.RATIO, weight=template, parts=parts) for v in locals_of(spread))

    def marks_ignored(self) -> bool:
        """Whether the program, or a collator of transformers, writes -100: the target that losses leave out unless told otherwise."""
        if self._ignored_marks is None:
            minus = (n for _, n in self.facts.nodes(ast.UnaryOp) if isinstance(n.op, ast.USub))  # type: ignore[attr-defined]
            collators = any("DataCollatorFor" in source.text for source in self.facts.sources)
            marks = (n for n in minus if isinstance(n.operand, ast.Constant) and n.operand.value == 100)  # type: ignore[attr-defined]
            self._ignored_marks = collators or any(not any(isinstance(a, ast.Slice) for a in self.facts.ancestors(n)) for n in marks)
        return self._ignored_marks

    # -- objects ------------------------------------------------------------------------------------
    def object_method(self, value: Made | Instance, node: ast.Call, func: ast.Attribute, args: Arguments, frame: Frame) -> Values:
        role, name = self.facts.role(value), func.attr
        if role is Role.OBJECT and isinstance(value, Made) and name in {"parameters", "named_parameters"} and not value.detail:
            self.facts.proven_models.add(value.site)
            role = Role.MODEL
        unknown = role is None or (role is Role.OBJECT and isinstance(value, Made) and bool(value.detail))
        if name in {"to", "cuda", "cpu"} and not unknown:
            return frozenset({value})
        is_model = role is Role.MODEL or (isinstance(value, Made) and value.detail.startswith("model."))
        if is_model:
            return self._model_method(value, name, node, args, frame)
        if role in {Role.WRITER, Role.LOGGER, Role.PROGRESS}:
            self.show(node, args, frame)
            return UNKNOWN
        if role is Role.NAMESPACE and isinstance(value, Made) and name == "parse_args":
            return frozenset({value})
        if role is Role.SCALER and name == "scale":
            return args.get(0, "outputs")
        if role is Role.OPTIMIZER and name == "add_param_group":
            self.note_optimized(value, args)
        if role is Role.OPTIMIZER and name == "step":
            self.run_closures(args)
        if isinstance(value, Made) and value.detail == "super":
            return self._super_method(name, args, frame)
        if isinstance(value, Made) and value.role is Role.OBJECT and value.detail.startswith("iter:") and name in {"next", "__next__"}:
            return self.evaluator.iterate(frozenset({value}), frame)
        if isinstance(value, Made) and role is Role.OBJECT and not value.detail:
            if name in {"update", "add", "add_batch"} and isinstance(self.facts.parents[node], ast.Expr):
                self.calls.keep_figures(args, frame)
                return UNKNOWN
            return self.calls.object_result(node, name, args)
        return UNKNOWN

    def run_closures(self, args: Arguments) -> None:
        for values in args.all():
            for value in values:
                if isinstance(value, Function):
                    self.machine.run_function(value.node, value.scope, self.machine.function_env(value.node, [], {}, None), None)  # type: ignore[arg-type]

    def _model_method(self, value: Made | Instance, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in {"parameters", "named_parameters"}:
            return frozenset({Made(Role.PARAMETERS, value.site, "parameters")})
        if name in {"to", "cuda", "cpu", "train", "eval", "half", "float", "double", "requires_grad_", "apply", "module", "type"}:
            return frozenset({value})
        if name == "state_dict":
            return frozenset({Made(Role.STATE, node, "state_dict")})
        if isinstance(value, Instance) and self.evaluator._instance_attribute(value, name):
            return UNKNOWN
        if self.calls.takes_shard(args):
            self.calls.note_forward(value, node, args, frame)
            return self.calls.model_output(args)
        return UNKNOWN

    def _super_method(self, name: str, args: Arguments, frame: Frame) -> Values:
        cls = frame.scope.enclosing_class
        if cls is None or not isinstance(cls.node, ast.ClassDef):
            return UNKNOWN
        from accel_migrate.facts.classes import find_method

        for base in self.facts.bases.get(cls.node, ()):
            method = find_method(self.facts, base, name) if isinstance(base, ast.ClassDef) else None
            if method is not None:
                receiver = frozenset({frame.receiver}) if frame.receiver is not None else UNKNOWN
                env = self.machine.function_env(method, args.positional, args.keywords, receiver)
                return self.machine.run_function(method, self.facts.scopes[method], env, frame.receiver)
        return UNKNOWN

    def container_method(self, box: Box, node: ast.Call, func: ast.Attribute, args: Arguments, frame: Frame) -> Values:
        name = func.attr
        if name in {"append", "add", "extend", "insert", "appendleft"} and args.positional:
            self._collect(box, node, args, frame, name)
            return UNKNOWN
        if name == "update":
            for values in args.positional:
                for inner in values:
                    self.evaluator._copy_box(inner, box)
            for key, values in args.keywords.items():
                self.machine.write_heap(box, key, values)
            return UNKNOWN
        if name in {"get", "pop", "setdefault"}:
            key = args.literal(0, "key")
            return self.evaluator._element(box, key if key is not None else "*") if node.args else self.evaluator._all_elements(box)
        if name == "values":
            return frozenset({box})
        if name == "items":
            pair = self.evaluator.box(node)
            self.machine.write_heap(pair, 1, self.evaluator._all_elements(box))
            wrapper = Made(Role.OBJECT, node, "iter:items")
            self.machine.write_heap(wrapper, "yields", frozenset({pair}))
            return frozenset({wrapper})
        return UNKNOWN

    def _collect(self, box: Box, node: ast.Call, args: Arguments, frame: Frame, name: str) -> None:
        """`losses.append(loss)`: a figure is kept for later, unless gradients flow through the list."""
        values = args.positional[-1]
        kinds = ops.spreads(values)
        if self.machine.loader_loops and not self.evaluator.made_per_batch(box.site):
            self.evaluator.keep_results(values)
        feeds = self.evaluator._feeds_backward(node.func.value, frame)  # type: ignore[attr-defined]
        trains = bool(self.machine.loader_loops) and self.machine.loader_loops[-1].trains
        input_rows = kinds == {Spread.SHARD} and (trains or any(v.grad for v in locals_of(values)))
        if kinds and not feeds and not input_rows and not self.evaluator.made_per_batch(box.site):
            self.evaluator.convert(node.args[-1], values, frame, "collect")
            values = frozenset(v for v in values if not isinstance(v, Local))
        self.machine.write_heap(box, "*", self.evaluator.iterate(values, frame) if name == "extend" else values)


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
