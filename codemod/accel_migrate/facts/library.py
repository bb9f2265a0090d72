"""What the functions and methods of PyTorch, Python and common libraries do to abstract values."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog, shown, trackers
from accel_migrate.facts import operations as ops
from accel_migrate.facts.apex import Apex
from accel_migrate.facts.bins import Bins
from accel_migrate.facts.builtins import Builtins
from accel_migrate.facts.effects import note_part
from accel_migrate.facts.graphs import pools
from accel_migrate.facts.objects import Objects
from accel_migrate.facts.prepared import is_gathering
from accel_migrate.facts.stacks import STACKS
from accel_migrate.facts.starting import Starting
from accel_migrate.facts.tensors import Tensors
from accel_migrate.facts.values import (
    TRAINABLE,
    UNKNOWN,
    Box,
    Instance,
    Local,
    Made,
    Role,
    Spread,
    Value,
    Values,
)

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments, Calls
    from accel_migrate.facts.machine import Frame


class Library(Builtins, Bins, Tensors, Objects, Starting, Apex):
    """Effects of library calls, by full name."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.facts = calls.facts
        self.machine = calls.machine
        self.evaluator = calls.evaluator
        self._ignored_marks: bool | None = None

    def call(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        self.calls._note_closures(args)
        if self.machine.accelerated and is_gathering(name):
            return UNKNOWN
        drawn = self.evaluator.drawn_by_hand(name, node)
        if drawn is not None:
            return drawn
        if name in catalog.DATA_PARALLEL | catalog.DISTRIBUTED_DATA_PARALLEL | catalog.IDENTITIES:
            if name in catalog.DISTRIBUTED_DATA_PARALLEL:
                self.machine.spoil()
                self.facts.wrapped |= {v.site for v in args.get(0, "module") if self.facts.role(v) is Role.MODEL}  # type: ignore[union-attr]
            return args.get(0, "module")
        if name in catalog.DEEP_COPIES:
            return frozenset(self.copied(value, node) for value in args.get(0, "x"))
        if name in catalog.MODEL_AVERAGES:
            return self.averaged(name, node, args)
        if name in catalog.PARAMETER_MAKERS:
            return ops.without_grad(args.get(0, "data"))
        if name in shown.FUNCTIONS or trackers.tells(name):
            return self.f_print(name, node, args, frame)
        role = catalog.role_of(name)
        if role is not None:
            return self.make(role, name, node, args)
        if name in catalog.BATCH_WRAPPERS:
            return self.wrap_iterable(name, node, args, frame)
        last = name.rpartition(".")[2]
        handler = getattr(self, f"f_{last}", None)
        if handler is not None:
            return handler(name, node, args, frame)
        if name.startswith("math."):
            return self.f_float(name, node, args, frame)
        if last in catalog.REDUCED_LOSSES and name.startswith("torch."):
            return self.loss(name, node, args, frame)
        if name.startswith("sklearn.metrics.") and self.calls.takes_shard(args):
            return self._scored(args, frame)
        if name.startswith(("torch.", "numpy.", "sklearn.", "torchmetrics.")) or name in {"sum", "abs", "max", "min", "round"}:
            return self.tensor_function(name, last, node, args, frame)
        if name == "torch.autograd.grad":
            return UNKNOWN
        return ops.pooled(self.calls.unknown(node, args)) if pools(name) else self.calls.unknown(node, args)

    def _scored(self, args: Arguments, frame: Frame) -> Values:
        """A score of rows, made by scikit-learn: it is given those of all processes."""
        for values, node in [*zip(args.positional, args.nodes, strict=True), *((args.keywords[k], n) for k, n in args.keyword_nodes.items())]:
            if Spread.SHARD in ops.spreads(values):
                self.evaluator.convert(node, values, frame, "array")
        return UNKNOWN

    def copied(self, value: Value, node: ast.expr) -> Value:
        """A copy of a model is a model of its own, trained only if an optimizer gets its parameters too."""
        if self.facts.role(value) is not Role.MODEL or not isinstance(value, Made | Instance):
            return value
        self.machine.spoil()
        self.facts.copied_models.add(value.site)
        copy = replace(value, site=node)
        if isinstance(value, Made):
            for key, values in self.machine.held_by(value):
                self.machine.write_heap(copy, key, values)
        return copy

    def averaged(self, name: str, node: ast.Call, args: Arguments) -> Values:
        """An average of a model's weights: a model that holds a copy of it as its own attribute `module`."""
        average = Made(Role.MODEL, node, name)
        self.machine.write_heap(average, "module", frozenset(self.copied(value, node.args[0] if node.args else node) for value in args.get(0, "model")))
        return frozenset({average})

    def make(self, role: Role, name: str, node: ast.Call, args: Arguments) -> Values:
        value = Made(role, node, name)
        if role is Role.OPTIMIZER:
            self.note_optimized(value, args)
        if role is Role.MODEL:
            self._note_parts(value, args)
            if name in STACKS:
                self.calls.note_stacked(value, args.positional)
            if name in catalog.PARAMETER_CONTAINERS:
                self.machine.train_tensors()
                return frozenset({value, TRAINABLE})
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
                    self.machine.tell(note_part, part.site, whole.site)  # type: ignore[union-attr]

    def note_optimized(self, optimizer: Made | Instance, args: Arguments) -> None:
        """Remembers whose parameters `optimizer` was given."""
        self.machine.spoil()
        pending = [v for values in args.all()[:1] for v in values]
        seen: set[Value] = set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value, Made) and value.role is Role.PARAMETERS:
                self.facts.optimized[optimizer.site].add(value.site)
                if value.detail == catalog.PARAM_GROUPS:
                    self.facts.inner_optimizers.add(optimizer.site)
            elif isinstance(value, Box):
                pending.extend(self.evaluator._all_elements(value))
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                pending.extend(self.machine.read_heap(value, "yields"))
            elif isinstance(value, Made) and value.role is Role.OBJECT and isinstance(value.site, ast.Call):
                given = (v for a in (*value.site.args, *(k.value for k in value.site.keywords)) for v in self.facts.of(a))
                self.facts.optimized[optimizer.site] |= {v.site for v in given if self.facts.role(v) is Role.MODEL}  # type: ignore[union-attr]
        self.facts.optimized[optimizer.site] |= {v.site for values in args.all() for v in values if self.facts.role(v) is Role.MODEL}  # type: ignore[union-attr]

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

    def f_pack_padded_sequence(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        return frozenset(replace(v, packed=node, batch=False) if isinstance(v, Local) and v.spread is Spread.SHARD else v for v in args.get(0, "input"))

    def f_save(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in {"torch.save", "numpy.save"} and node.args:
            self.show_expression(node.args[0 if name == "torch.save" else -1], frame)
        return UNKNOWN

    def f_save_image(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if node.args:
            self.show_expression(node.args[0], frame)
        return UNKNOWN

