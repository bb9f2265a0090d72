"""What calls do: entering project functions, making objects, reducing tensors, running backward passes."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog, shown
from accel_migrate.facts import operations as ops
from accel_migrate.facts.classes import find_method, is_record, named_fields, record_fields
from accel_migrate.facts.effects import (
    calls_project,
    external_name,
    has_rows,
    note_called_back,
    note_callee,
    note_caller,
    note_construction,
    note_external,
    note_method,
)
from accel_migrate.facts.facts import Backward, Forward
from accel_migrate.facts.graphs import pools
from accel_migrate.facts.library import Library
from accel_migrate.facts.meters import only_computes
from accel_migrate.facts.prepared import GATHERING, gathers_in
from accel_migrate.facts.recurrent import note_start
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.stacks import Stacks
from accel_migrate.facts.values import (
    TRAINABLE,
    UNKNOWN,
    Box,
    ClassValue,
    Function,
    Instance,
    Literal,
    Local,
    Made,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    altered,
    locals_of,
    made,
)

if TYPE_CHECKING:
    from accel_migrate.facts.evaluator import Evaluator
    from accel_migrate.facts.machine import Frame


@dataclass(eq=False)
class Arguments:
    """The evaluated arguments of a call."""

    positional: list[Values]
    keywords: dict[str, Values]
    nodes: list[ast.expr]
    keyword_nodes: dict[str, ast.expr]

    def all(self) -> list[Values]:
        return [*self.positional, *self.keywords.values()]

    def get(self, index: int, name: str) -> Values:
        if name in self.keywords:
            return self.keywords[name]
        return self.positional[index] if index < len(self.positional) else UNKNOWN

    def node(self, index: int, name: str) -> ast.expr | None:
        if name in self.keyword_nodes:
            return self.keyword_nodes[name]
        return self.nodes[index] if index < len(self.nodes) else None

    def literal(self, index: int, name: str) -> object:
        found = [v.value for v in self.get(index, name) if isinstance(v, Literal)]
        return found[0] if len(found) == 1 else None


class Calls(Stacks):
    """`call(node, frame)` gives the values of a call expression."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.facts = evaluator.facts
        self.machine = evaluator.machine
        self.library = Library(self)
        self._partials: list[Value] = []
        """What the partials call that are being applied."""

    def call(self, node: ast.Call, frame: Frame) -> Values:
        base: Values = UNKNOWN
        if isinstance(node.func, ast.Attribute):
            base = self.evaluator.as_mapping(node.func, self.evaluator.eval(node.func.value, frame))
            self.facts.values[node.func.value] = self.facts.values.get(node.func.value, UNKNOWN) | base
            if self.facts.trace is not None:
                self.facts.trace.evaluated(node.func.value, base)
        targets = self.evaluator.eval(node.func, frame)
        args = self.arguments(node, frame)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "backward" and not self._project_method(targets):
            return self.backward(node, node.func.value, base, args, frame)
        found: set[Value] = set()
        for target in in_order(targets):
            found |= self.apply(target, node, args, frame)
        if self.evaluator.asks_for_gradients(node, args):
            self.machine.train_tensors()
            found.add(TRAINABLE)
        if isinstance(node.func, ast.Attribute):
            if not targets and not self._keeps_or_runs(base):
                self._note_closures(args)
            found |= self.method(node, node.func, base, args, frame)
        elif not targets:
            found |= self.unknown(node, args)
        return frozenset(found)

    def _keeps_or_runs(self, base: Values) -> bool:
        """Whether functions handed to a method of `base` are followed: containers keep them, optimizers run closures."""
        return any(isinstance(v, Box) or self.facts.role(v) is Role.OPTIMIZER for v in base)

    def _project_method(self, targets: Values) -> bool:
        return any(isinstance(t, Function) for t in targets)

    def arguments(self, node: ast.Call, frame: Frame) -> Arguments:
        positional, nodes = [], []
        for arg in node.args:
            values = self.evaluator.eval(arg, frame)
            handed_on = _gathered(arg, "*", frame) if isinstance(arg, ast.Starred) else {}
            if handed_on:
                positional.extend(handed_on.values())
                nodes.extend([arg] * len(handed_on))
                continue
            positional.append(self.evaluator.iterate(values, frame) if isinstance(arg, ast.Starred) else values)
            nodes.append(arg)
        keywords, keyword_nodes = {}, {}
        for keyword in node.keywords:
            values = self.evaluator.eval(keyword.value, frame)
            if keyword.arg is None and (handed_on := _gathered(keyword.value, "**", frame)):
                keywords.update(handed_on)
                keyword_nodes.update(dict.fromkeys(handed_on, keyword.value))
            elif keyword.arg is None:
                positional.append(self._spread_of_mapping(values))
                nodes.append(keyword.value)
            else:
                keywords[keyword.arg] = values
                keyword_nodes[keyword.arg] = keyword.value
        return Arguments(positional, keywords, nodes, keyword_nodes)

    def _spread_of_mapping(self, values: Values) -> Values:
        mappings = [v for v in values if isinstance(v, Box) and isinstance(v.site, ast.Dict | ast.DictComp)]
        found: set[Value] = {v for v in values if isinstance(v, Local) and not mappings}  # a model may return rows elsewhere
        for value in mappings or values:
            if isinstance(value, Box):
                found |= self.evaluator.element(frozenset({value}), "*", None)  # type: ignore[arg-type]
        return frozenset(found)

    # -- applying a value ---------------------------------------------------------------------------
    def apply(self, target: Value, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if isinstance(target, Function):
            return self.enter(target, node, args, frame)
        if isinstance(target, ClassValue):
            return self.construct(target, node, args, frame)
        if isinstance(target, Ref):
            self.machine.do(note_external, node, target.name)
            self.machine.knows(external_name, node, target.name)
            return self.library.call(target.name, node, args, frame)
        if isinstance(target, Instance):
            return self.call_instance(target, node, args, frame)
        if isinstance(target, Made):
            return self.call_made(target, node, args, frame)
        return UNKNOWN

    def enter(self, target: Function, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if not isinstance(target.node, ast.Lambda):
            self.machine.tell(note_callee, node, target.node)
            self.machine.knows(calls_project, node, True)
            self.machine.tell(note_caller, target.node, node, frame.scope)
        bound = frozenset({target.receiver or target.owner}) if target.receiver or target.owner else None
        self._note_closures(args)
        if target.receiver is not None and self._only_keeps_figures(target.receiver, target.node):
            args = self.keep_figures(args, frame)
        env = self.machine.function_env(target.node, args.positional, args.keywords, bound)
        if target.receiver is not None and self.facts.role(target.receiver) is Role.MODEL:
            self.note_forward(target.receiver, node, args, frame)
        result = self.machine.run_function(target.node, target.scope, env, target.receiver)  # type: ignore[arg-type]
        if bound is None:
            self.evaluator.refilled_by(target.node, [p.arg for p in target.node.args.args], args, frame)
        return result

    def _only_keeps_figures(self, receiver: Instance, method: ast.AST) -> bool:
        """Whether `receiver` is a meter or metric, and `method` keeps figures in it: no model, and none of its methods runs one."""
        if self.facts.role(receiver) not in {None, Role.OBJECT} or not self.machine.loader_loops:
            return False
        self.machine.spoil()
        if not self.machine.meters_known or only_computes(self.facts, receiver.cls.node, method):
            return False
        active = {f.scope for f in (*self.facts.forwards.values(), *self.facts.backwards.values())} | self.machine.active
        return all(scope.enclosing_class is None or scope.enclosing_class.node is not receiver.cls.node for scope in active)

    def keep_figures(self, args: Arguments, frame: Frame) -> Arguments:
        """What a meter is given is converted on the way in; inside it is the global figure."""
        for values, node in [*zip(args.positional, args.nodes, strict=True), *((args.keywords[k], args.keyword_nodes[k]) for k in args.keywords)]:
            self.evaluator.convert(node, values, frame, "collect")
        without = [frozenset(v for v in values if not isinstance(v, Local)) for values in args.positional]
        keywords = {k: frozenset(v for v in values if not isinstance(v, Local)) for k, values in args.keywords.items()}
        return Arguments(without, keywords, args.nodes, args.keyword_nodes)

    def _note_closures(self, args: Arguments) -> None:
        for values in args.all():
            for value in values:
                if isinstance(value, Function):
                    self.machine.tell(note_called_back, value.node)

    def construct(self, cls: ClassValue, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        self.machine.tell(note_construction, cls.node, node, frame.scope)
        instance = Instance(cls, node)
        if self.machine.given_rows and self.facts.role(instance) in {None, Role.OBJECT}:
            instance = altered(instance, rows=True)
        init = find_method(self.facts, cls.node, "__init__")
        if init is not None:
            self.machine.tell(note_caller, init, node, frame.scope)
            self.machine.tell(note_callee, node, init)
            self.machine.knows(calls_project, node, True)
            env = self.machine.function_env(init, args.positional, args.keywords, frozenset({instance}))
            self.machine.run_function(init, self.facts.scopes[init], env, instance)
        elif self.stacks(instance):
            self.note_stacked(instance, args.positional)
        elif is_record(self.facts, cls.node):
            self._fill_record(instance, args)
        if self.facts.role(instance) is Role.OPTIMIZER:
            self.library.note_optimized(instance, args)
        for i, values in enumerate(args.positional):
            self.machine.write_heap(instance, f"argument {i}", values)
        return frozenset({instance})

    def _fill_record(self, record: Instance, args: Arguments) -> None:
        """A dataclass or named tuple keeps its arguments under the names of its fields."""
        for name, values in [*zip(record_fields(record.cls.node), args.positional, strict=False), *args.keywords.items()]:
            self.machine.store_attribute(record, name, values)

    def call_instance(self, target: Instance, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if self.facts.role(target) in {Role.MODEL, Role.CRITERION}:
            self.note_forward(target, node, args, frame)
        return self.run_forward(target, node, args)

    def run_forward(self, target: Instance, node: ast.Call, args: Arguments) -> Values:
        role = self.facts.role(target)
        method = find_method(self.facts, target.cls.node, "forward" if role in {Role.MODEL, Role.CRITERION} else "__call__")
        if method is None and self.stacked(target):
            return self.run_stack(target, node, args)
        if method is None:
            return self.model_output(args) if role is Role.MODEL else self.unknown(node, args)
        env = self.machine.function_env(method, args.positional, args.keywords, frozenset({target}))
        self.machine.tell(note_callee, node, method)
        self.machine.knows(calls_project, node, True)
        result = self.machine.run_function(method, self.facts.scopes[method], env, target)
        whole = [statement for statement, gather in self.machine.plan.items() if gather.backward is not None]
        if whole:
            self.machine.spoil()
        gathers = any(self.facts.inside(statement, method) for statement in whole)
        gathers |= self.machine.accelerated and gathers_in(method)
        if not result and role is Role.MODEL and self.takes_shard(args) and not gathers:
            return self.model_output(args)
        if role is Role.MODEL and not self.machine.no_grad:
            return frozenset(_with_grad(v) for v in result)
        return result

    def call_made(self, target: Made, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if self.facts.role(target) is Role.MODEL or target.detail.startswith("model."):
            self.note_forward(target, node, args, frame)
            if self.stacked(target):
                return self.run_stack(target, node, args)
            if target.detail in catalog.RECURRENT:
                note_start(self.evaluator, args)
            output = self.model_output(args, tensor=catalog.returns_tensor(target.detail))
            output = ops.pooled(output) if pools(target.detail) else output
            return self.recurrent_output(target, node, output) if target.detail in catalog.RECURRENT and output else output
        if target.role is Role.CRITERION:
            return self.library.criterion(target, node, args, frame)
        if target.detail == "partial":
            return self.call_partial(target, node, args, frame)
        if target.detail == "namedtuple":
            return self._named_tuple(target, node, args)
        return self.unknown(node, args)

    def _named_tuple(self, target: Made, node: ast.Call, args: Arguments) -> Values:
        """A tuple whose elements have names, too."""
        box, fields = self.evaluator.box(node), named_fields(target.site)
        for i, (name, values) in enumerate(zip(fields, args.positional, strict=False)):
            self.machine.write_heap(box, i, values)
            self.machine.write_heap(box, name, values)
        for name, values in args.keywords.items():
            self.machine.write_heap(box, name, values)
            if name in fields:
                self.machine.write_heap(box, fields.index(name), values)
        return frozenset({box})

    def call_partial(self, target: Made, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """The function of a `functools.partial`, with the arguments bound there and those given here."""
        made_by = target.site
        assert isinstance(made_by, ast.Call)
        bound = [self.machine.read_heap(target, i) for i in range(1, len(made_by.args))]
        keyword_nodes = {k.arg: k.value for k in made_by.keywords if k.arg is not None}
        keywords = {name: self.machine.read_heap(target, name) for name in keyword_nodes}
        every = Arguments(
            [*bound, *args.positional], keywords | args.keywords, [*made_by.args[1:], *args.nodes], keyword_nodes | args.keyword_nodes
        )
        found: set[Value] = set()
        for function in in_order(self.machine.read_heap(target, 0)):
            if function not in self._partials:  # `layer = partial(layer, eps=1e-5)` may be a partial of itself
                self._partials.append(function)
                found |= self.apply(function, node, every, frame)
                self._partials.pop()
        return frozenset(found)

    def note_forward(self, model: Value, node: ast.Call, args: Arguments, frame: Frame) -> None:
        if self._inside_model(frame) or self.facts.role(model) is Role.CRITERION:
            return
        self.machine.spoil()
        if not self.takes_shard(args) or (self.facts.cuts and any(v.whole for values in args.all() for v in locals_of(self.evaluator._deep(values)))):
            if not self.machine.no_grad and any(not isinstance(n, ast.Constant) for n in args.nodes):
                self.facts.blind_forwards.add(node)
            return
        self.run_hooks(model, args)
        forward = self.facts.forwards.setdefault(
            node, Forward(node, frozenset({model}), frame.scope, self.evaluator._statement(node))
        )
        forward.model |= {model}
        forward.recorded |= not self.machine.no_grad
        forward.contexts.add(self.machine.loader_loops[-1].node if self.machine.loader_loops else None)

    def _inside_model(self, frame: Frame) -> bool:
        return frame.receiver is not None and self.facts.role(frame.receiver) is Role.MODEL

    def takes_shard(self, args: Arguments) -> bool:
        given = args.all()
        if any(isinstance(v, Box) for values in given for v in values):
            return self.machine.ask(has_rows, *given)
        return any(Spread.SHARD in ops.spreads(values) for values in given)

    def model_output(self, args: Arguments, tensor: bool = False) -> Values:
        if not self.takes_shard(args):
            return UNKNOWN
        inputs = ops.local(Spread.SHARD, *(self.evaluator._deep(v) for v in args.all()))
        return frozenset(altered(v, grad=not self.machine.no_grad, output=not tensor, labelled="labels" in args.keywords) for v in locals_of(inputs))

    def recurrent_output(self, layer: Made, node: ast.Call, output: Values) -> Values:
        """The outputs of a recurrent layer, and its state: layers first, then the rows."""
        box = self.evaluator.box(node)
        self.machine.write_heap(box, 0, frozenset(altered(v, output=False) for v in locals_of(output)))
        state = frozenset(altered(v, output=False, axis=1, rank=3) for v in locals_of(output))
        if layer.detail.endswith("LSTM"):
            pair = Box(layer.site, box.loop, box.rows)
            for i in range(2):
                self.machine.write_heap(pair, i, state)
            state = frozenset({pair})
        self.machine.write_heap(box, 1, state)
        return frozenset({box})

    def unknown(self, node: ast.Call, args: Arguments) -> Values:
        """A call of something unknown: rows in, rows out; otherwise an object whose attributes are followed."""
        self._note_closures(args)
        if self.takes_shard(args):
            may_be_layer = self.machine.ask(external_name, node) is None and self.evaluator.in_model(node)
            return ops.local(Spread.SHARD, *args.all(), *([frozenset({Local(Spread.SHARD, grad=True)})] if may_be_layer else []))
        return frozenset({Made(Role.OBJECT, node)})

    # -- methods ------------------------------------------------------------------------------------
    def method(self, node: ast.Call, func: ast.Attribute, base: Values, args: Arguments, frame: Frame) -> Values:
        if base and not any(isinstance(v, Ref) for v in base):
            self.machine.do(note_method, node, base, func.attr)
        if self.evaluator.changed_in_place(node, func, args, frame):
            return frozenset(v for v in base if not isinstance(v, Local))
        self.evaluator.refilled(func, args, frame)
        split = self.evaluator.split_method(node, func, base)
        if split is not None:
            return split
        if self.machine.accelerated and func.attr in GATHERING and not locals_of(base):
            return UNKNOWN
        found: set[Value] = set()
        tensors = frozenset(locals_of(base))
        if func.attr in {"items", "values"} and any(isinstance(v, Box) for v in base):
            tensors = frozenset(v for v in locals_of(base) if v.batch or v.output)  # rows have none
        if tensors or not base or TRAINABLE in base:
            found |= self.library.tensor_method(node, func, tensors, args, frame)
        elif func.attr == "format" and any(isinstance(v, Literal) and isinstance(v.value, str) for v in base):
            self.library.show(node, args, frame)
        if shown.is_shown_by(func.attr, base):
            self.library.show(node, args, frame)
        if not base and func.attr in {"update", "add", "add_batch"} and isinstance(self.facts.parents[node], ast.Expr):
            self.keep_figures(args, frame)
        for value in in_order(base):
            if isinstance(value, Made | Instance):
                found |= self.library.object_method(value, node, func, args, frame)
            elif isinstance(value, Box):
                found |= self.library.container_method(value, node, func, args, frame)
        return frozenset(found)

    def object_result(self, node: ast.Call, name: str, args: Arguments) -> Values:
        """What a method of an unknown object returns: rows for rows, else another unknown object."""
        if name == "parse_args":
            return frozenset({Made(Role.NAMESPACE, node, name)})
        return self.unknown(node, args)

    # -- backward -----------------------------------------------------------------------------------
    def backward(self, node: ast.Call, value: ast.expr, base: Values, args: Arguments, frame: Frame) -> Values:
        self.machine.spoil()
        loss, scaled = value, False
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "scale" and value.args:
            loss, scaled = value.args[0], bool(made(self.facts.of(value.func.value), Role.SCALER))
            base = self.facts.of(loss)
        if made(base, Role.ACCELERATOR):
            if not self.machine.accelerated or not args.nodes:
                return UNKNOWN
            loss, base = args.nodes[0], args.positional[0]
        old = self.facts.backwards.get(node)
        ran_on_rows = any(f.scope is frame.scope for f in self.facts.forwards.values())
        with_loader = bool(self.machine.loader_loops) or bool(locals_of(base)) or ran_on_rows
        if old is None:
            self.facts.backwards[node] = Backward(node, loss, base, frame.scope, scaled, with_loader)
        else:
            old.values |= base
            old.with_loader |= with_loader
        taken = {place for v in locals_of(base) if v.grad for place in v.taken}
        for loop in [*self.machine.loader_loops, *(self.facts.loops[place] for place in taken if place in self.facts.loops)]:
            loop.trains = True
        return UNKNOWN


def _with_grad(value: Value) -> Value:
    return altered(value, grad=True, host=False) if isinstance(value, Local) and (value.host or not value.grad) else value


def _gathered(node: ast.expr, stars: str, frame: Frame) -> dict[str, Values]:
    """What the function was given for its parameter `*args` or `**kwargs`, where `node` hands all of it on."""
    name = node.value if isinstance(node, ast.Starred) else node
    start = f"{stars}{name.id} " if isinstance(name, ast.Name) else "?"
    return {key.removeprefix(start): values for key, values in frame.env.items() if key.startswith(start)}
