"""What methods of models, optimizers, containers and unknown objects do to abstract values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.effects import note_callee, note_caller
from accel_migrate.facts.prepared import prepared
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    ClassValue,
    Function,
    Instance,
    Local,
    Made,
    Role,
    Spread,
    Values,
    locals_of,
)

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame


HOOKS = {"register_forward_hook", "register_forward_pre_hook"}


class Objects:
    """Part of `Library`."""

    def object_method(self, value: Made | Instance, node: ast.Call, func: ast.Attribute, args: Arguments, frame: Frame) -> Values:
        role, name = self.facts.role(value), func.attr
        if role is Role.OBJECT and isinstance(value, Made) and name in {"parameters", "named_parameters"} and not value.detail:
            self.machine.spoil()
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
            return frozenset({Made(Role.WRITER, node, "part")}) if role is Role.WRITER else UNKNOWN
        if role is Role.NAMESPACE and isinstance(value, Made) and name == "parse_args":
            return frozenset({value})
        if role is Role.ACCELERATOR and name in {"prepare", "unwrap_model", "prepare_model", "prepare_data_loader", "prepare_optimizer"}:
            return prepared(self.machine, name, node, args) if self.machine.accelerated else self._prepared(node, args)
        if role is Role.SCALER and name == "scale":
            return args.get(0, "outputs")
        if role is Role.OPTIMIZER and name == "add_param_group":
            self.note_optimized(value, args)
        if role is Role.OPTIMIZER and name == "step":
            self.run_closures(args)
        if isinstance(value, Made) and value.detail == "super":
            return self._super_method(name, node, args, frame)
        if isinstance(value, Made) and value.role is Role.OBJECT and value.detail.startswith("iter:") and name in {"next", "__next__"}:
            return self.evaluator.iterate(frozenset({value}), frame)
        if isinstance(value, Made) and role is Role.OBJECT and not value.detail:
            if name in {"update", "add", "add_batch"} and isinstance(self.facts.parents[node], ast.Expr):
                self.calls.keep_figures(args, frame)
                return UNKNOWN
            return self.calls.object_result(node, name, args)
        return UNKNOWN

    def _prepared(self, node: ast.Call, args: Arguments) -> Values:
        """What `accelerator.prepare(...)` returns: what it was given, one or several."""
        if len(args.positional) == 1:
            return args.positional[0]
        box = self.evaluator.box(node)
        for index, values in enumerate(args.positional):
            self.machine.write_heap(box, index, values)
        return frozenset({box})

    def run_closures(self, args: Arguments) -> None:
        for values in args.all():
            for value in in_order(values):
                if isinstance(value, Function):
                    self.machine.run_function(value.node, value.scope, self.machine.function_env(value.node, [], {}, None), None)  # type: ignore[arg-type]

    def _model_method(self, value: Made | Instance, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if name in HOOKS:
            self.calls.note_hook(value, args.get(0, "hook"), before="pre" in name)
            return UNKNOWN
        if name in {"append", "insert", "extend", "add_module", "register_module", "update"} and self.calls.stacks(value):
            self.calls.note_stacked(value, [frozenset().union(*args.positional)], added=node)
        if name in {"parameters", "named_parameters"}:
            return frozenset({Made(Role.PARAMETERS, value.site, "parameters")})
        if name in {"to", "cuda", "cpu", "train", "eval", "half", "float", "double", "requires_grad_", "apply", "module", "type"}:
            return frozenset({value})
        if name in {"values", "children"} and self.calls.stacked(value):
            return frozenset({value})
        if name in {"items", "named_children"} and self.calls.stacked(value):
            return self._named_modules(value, node)
        if name in {"modules", "children", "named_modules", "named_children"}:
            return self._modules(value, node, name.startswith("named"))
        if name == "register_parameter" and isinstance(label := args.literal(0, "name"), str):
            self.machine.store_attribute(value, label, args.get(1, "param"))
        if name == "state_dict":
            return frozenset({Made(Role.STATE, node, "state_dict")})
        if isinstance(value, Instance) and self.evaluator._instance_attribute(value, name):
            return UNKNOWN
        if self.calls.takes_shard(args):
            self.calls.note_forward(value, node, args, frame)
            return self.calls.model_output(args)
        return UNKNOWN

    def _modules(self, model: Made | Instance, node: ast.Call, named: bool) -> Values:
        """What `for module in model.modules():` goes through: parts of `model`, of which no more is known."""
        part: Values = frozenset({Made(Role.OBJECT, model.site, f"model.{node.func.attr}")})  # type: ignore[attr-defined]
        if named:
            return self._pairs(node, part)
        wrapper = Made(Role.OBJECT, node, "iter:modules")
        self.machine.write_heap(wrapper, "yields", part)
        return frozenset({wrapper})

    def _named_modules(self, stack: Made | Instance, node: ast.Call) -> Values:
        return self._pairs(node, self.calls.taken_from(stack, "*"))

    def _pairs(self, node: ast.Call, second: Values) -> Values:
        """Pairs of a name and one of `second`, to loop over."""
        pair = self.evaluator.box(node)
        self.machine.write_heap(pair, 1, second)
        wrapper = Made(Role.OBJECT, node, "iter:items")
        self.machine.write_heap(wrapper, "yields", frozenset({pair}))
        return frozenset({wrapper})

    def _super_method(self, name: str, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        cls = frame.scope.enclosing_class
        if cls is None or not isinstance(cls.node, ast.ClassDef):
            return UNKNOWN
        from accel_migrate.facts.classes import find_method

        for base in self.facts.bases.get(cls.node, ()):
            method = find_method(self.facts, base, name) if isinstance(base, ast.ClassDef) else None
            if method is not None:
                self.machine.tell(note_caller, method, node, frame.scope)
                self.machine.tell(note_callee, node, method)
                receiver = frozenset({frame.receiver}) if frame.receiver is not None else UNKNOWN
                env = self.machine.function_env(method, args.positional, args.keywords, receiver)
                return self.machine.run_function(method, self.facts.scopes[method], env, frame.receiver)
        if frame.receiver is not None and self.calls.stacks(frame.receiver):
            if name in {"__init__", "append", "extend", "insert", "add_module"}:
                self.calls.note_stacked(frame.receiver, args.positional, added=None if name == "__init__" else node)
            if name in {"forward", "__call__"} and self.calls.stacked(frame.receiver):
                return self.calls.run_stack(frame.receiver, node, args)
        if name in {"forward", "__call__"} and self.facts.class_role(ClassValue(cls.node, cls)) is Role.MODEL:
            return self.calls.model_output(args) if self.calls.takes_shard(args) else UNKNOWN
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
                self.machine.write_heap(box, key, self.evaluator.entered(frozenset({box}), args.keyword_nodes[key], values, frame))
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
            self.evaluator.keep_results(values, node)
        attached = any(v.grad for v in locals_of(values))
        feeds = self.evaluator._feeds_backward(node.func.value, frame) or (attached and self.evaluator._reaches_backward(node.func.value))  # type: ignore[attr-defined]
        input_rows = kinds == {Spread.SHARD} and not self._is_result(node, values)
        if kinds and not feeds and not input_rows and not self.evaluator.made_per_batch(box.site):
            self.evaluator.convert(node.args[-1], values, frame, "collect")
            values = frozenset(v for v in values if not isinstance(v, Local))
        elif not kinds and not feeds and not self.evaluator.made_per_batch(box.site) and self.evaluator.for_each_row(node):
            self.evaluator.convert(node.args[-1], frozenset({Local(Spread.ROW)}), frame, "collect")
        rows = self.evaluator.one_for_each_row(node, box) if name == "append" else UNKNOWN
        self.machine.write_heap(box, "*", rows or (self.evaluator.iterate(values, frame) if name == "extend" else values))

    def _is_result(self, node: ast.Call, values: Values) -> bool:
        """Whether the rows which `node` keeps are results to look at later: no gradient flows, and no batch is kept as it is."""
        trains = bool(self.machine.loader_loops) and self.machine.loader_loops[-1].trains
        if not trains:
            return not any(v.grad for v in locals_of(values))
        return self.evaluator.trains_nothing(node.func.value, node.args[-1]) and not any(v.batch for v in locals_of(values))
