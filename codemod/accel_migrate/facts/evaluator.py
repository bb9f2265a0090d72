"""Abstract values of expressions. Calls are in `calls`; arithmetic is in `operations`."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts import operations as ops
from accel_migrate.facts.calls import Calls
from accel_migrate.facts.classes import find_method
from accel_migrate.facts.facts import Conversion
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import (
    UNKNOWN,
    Box,
    ClassValue,
    Function,
    Instance,
    Literal,
    Local,
    Made,
    ModuleValue,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    locals_of,
)

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame, Machine

BUILTINS = {"enumerate", "zip", "iter", "next", "len", "float", "int", "print", "list", "tuple", "dict", "sum", "range", "filter",
            "map", "reversed", "sorted", "open", "str", "max", "min", "super", "getattr", "hasattr", "isinstance", "vars", "abs",
            "round", "set", "input", "type", "bool", "format", "repr"}  # fmt: skip
ANY = "*"
"""Heap key of an element whose index or key is not a constant."""


class Evaluator:
    """`eval(node, frame)` gives the values of an expression and records them in the facts."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.facts = machine.facts
        self.calls = Calls(self)

    def eval(self, node: ast.expr, frame: Frame) -> Values:
        values = getattr(self, f"on_{type(node).__name__}", self.on_other)(node, frame)
        gather = self.machine.plan.get(self._statement(node)) if self.machine.plan else None
        if gather is not None and node in gather.hoisted:
            values = UNKNOWN
        if frame.gathered and isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) in frame.gathered:
            return UNKNOWN
        from accel_migrate.facts.machine import limited

        values = limited(values)
        old = self.facts.values.get(node)
        self.facts.values[node] = values if old is None else limited(old | values)
        return values

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

    # -- names and attributes -------------------------------------------------------------------
    def on_Name(self, node: ast.Name, frame: Frame) -> Values:
        return self.machine.read_name(node.id, frame)

    def builtin(self, name: str, frame: Frame) -> Values:
        star = self.machine.heap.get((frame.scope.module, f"star {name}"))
        if star:
            return star
        return frozenset({Ref(name)}) if name in BUILTINS else UNKNOWN

    def on_Attribute(self, node: ast.Attribute, frame: Frame) -> Values:
        found: set[Value] = set()
        for value in self.eval(node.value, frame):
            found |= self.attribute(value, node.attr, node, frame)
        return frozenset(found)

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Values:
        machine = self.machine
        if isinstance(value, Ref):
            return frozenset({value if name == "__dict__" else Ref(f"{value.name}.{name}")})
        if isinstance(value, ModuleValue):
            return self.module_member(value, name)
        if isinstance(value, Instance):
            return self._instance_attribute(value, name)
        if isinstance(value, ClassValue):
            return self._class_attribute(value, name, None)
        if isinstance(value, Made):
            return self._made_attribute(value, name)
        if isinstance(value, Local):
            if value.spread is Spread.SHARD and name == "shape":
                return frozenset({Made(Role.SHAPE, value_site(node), "shape")})
            if value.output and name == "loss":
                return self._returned_loss(value)
            if name in catalog.TENSOR_FACTS:
                return UNKNOWN
            return frozenset({value}) if value.spread is Spread.SHARD or name in {"data", "T", "real", "grad"} else UNKNOWN
        del machine
        return UNKNOWN

    def module_member(self, module: ModuleValue, name: str) -> Values:
        scope = self.facts.scopes[module.source.tree]
        return self.machine.cells.get((scope, name), UNKNOWN) or self.machine.heap.get((scope, f"star {name}"), UNKNOWN)

    def _instance_attribute(self, value: Instance, name: str) -> Values:
        stored = self.machine.read_heap(value.cls, name)
        inherited = self._class_attribute(value.cls, name, value)
        return stored | inherited

    def _class_attribute(self, cls: ClassValue, name: str, receiver: Instance | None) -> Values:
        from accel_migrate.facts.classes import ancestry

        for base in ancestry(self.facts, cls.node):
            if isinstance(base, str):
                continue
            for item in base.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name == name:
                    return self._method(item, receiver)
            stored = self.machine.read_heap(ClassValue(base, self.facts.scopes[base]), name)
            if stored and base is not cls.node:
                return stored
        return self.machine.read_heap(cls, name) if receiver is None else UNKNOWN

    def _method(self, item: ast.FunctionDef | ast.AsyncFunctionDef, receiver: Instance | None) -> Values:
        decorators = {ast.unparse(d) for d in item.decorator_list}
        scope = self.facts.scopes[item]
        if "property" in decorators and receiver is not None:
            return self.machine.run_function(item, scope, self.machine.function_env(item, [], {}, frozenset({receiver})), receiver)
        if "staticmethod" in decorators:
            return frozenset({Function(item, scope)})
        return frozenset({Function(item, scope, receiver)})

    def _made_attribute(self, value: Made, name: str) -> Values:
        stored = self.machine.read_heap(value, name)
        if value.role is Role.MODEL and not stored and name not in {"training"}:
            return frozenset({value}) if name == "module" else frozenset({Made(Role.OBJECT, value.site, f"model.{name}")})
        if value.role is Role.NAMESPACE and not stored:
            return UNKNOWN
        return stored

    def _returned_loss(self, output: Local) -> Values:
        """The loss that a library's model returns: a mean, over targets that are not ignored where the program marks some so."""
        kind = Spread.RATIO if self.calls.library.marks_ignored() else Spread.MEAN
        return ops.local(kind, frozenset({output}))

    # -- literals and containers ------------------------------------------------------------------
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

    def on_Tuple(self, node: ast.Tuple | ast.List | ast.Set, frame: Frame) -> Values:
        box = self.box(node)
        for i, element in enumerate(node.elts):
            if isinstance(element, ast.Starred):
                self.machine.write_heap(box, ANY, self.iterate(self.eval(element.value, frame), frame))
            else:
                self.machine.write_heap(box, i, self._converted_if_kept(element, self.eval(element, frame), frame))
        return frozenset({box})

    on_List = on_Set = on_Tuple

    def on_Dict(self, node: ast.Dict, frame: Frame) -> Values:
        box = self.box(node)
        for key, value in zip(node.keys, node.values, strict=True):
            values = self.eval(value, frame)
            if key is None:
                for inner in values:
                    self._copy_box(inner, box)
            else:
                self.machine.write_heap(box, self.key(key, frame), self._converted_if_kept(value, values, frame))
        return frozenset({box})

    def _converted_if_kept(self, node: ast.expr, values: Values, frame: Frame) -> Values:
        if node not in self.machine.kept:
            return values
        self.convert(node, values, frame, "keep")
        return frozenset(v for v in values if not isinstance(v, Local))

    def keep_results(self, values: Values) -> None:
        """Tuples and dicts of figures of a batch outlive it: the figures are converted where the containers are written."""
        for site in (v.site for v in values if isinstance(v, Box)):
            nodes = site.values if isinstance(site, ast.Dict) else site.elts if isinstance(site, ast.Tuple | ast.List) else []
            for node in nodes:
                if self._is_figure(self.facts.of(node)) and node not in self.machine.kept:
                    self.machine.kept.add(node)
                    self.machine.changed = True

    def _is_figure(self, values: Values) -> bool:
        """Whether `values` are numbers about a batch through which no gradient flows."""
        figures = {Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.COUNT, Spread.RATE}
        return bool(ops.spreads(values) & figures) and not any(v.grad for v in locals_of(values))

    def _copy_box(self, inner: Value, box: Box) -> None:
        for (owner, key), values in list(self.machine.heap.items()):
            if owner == inner:
                self.machine.write_heap(box, key, values)

    def key(self, node: ast.expr, frame: Frame) -> object:
        values = self.eval(node, frame)
        literals = [v.value for v in values if isinstance(v, Literal)]
        return literals[0] if len(literals) == 1 and len(values) <= 2 else ANY

    def on_Subscript(self, node: ast.Subscript, frame: Frame) -> Values:
        base = self.eval(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            self.on_other(node.slice, frame)  # type: ignore[arg-type]
            return frozenset(v for v in base if not (isinstance(v, Made) and v.role is Role.SHAPE))
        found = self.element(base, self.key(node.slice, frame), frame)
        return ops.chosen(found, self.facts.of(node.slice), node.slice)

    def element(self, values: Values, key: object, frame: Frame) -> Values:
        """`values[key]`, or the element at position `key` of an unpacking."""
        found: set[Value] = set()
        for value in values:
            found |= self._element(value, key)
        return frozenset(found)

    def _element(self, value: Value, key: object) -> Values:
        heap = self.machine
        if isinstance(value, Box):
            keyed = heap.read_heap(value, key) | heap.read_heap(value, ANY)
            if key == ANY or (isinstance(key, int) and key < 0):
                keyed = self._all_elements(value)
            return keyed
        if isinstance(value, Local):
            if value.output and key in {"loss"}:
                return self._returned_loss(value)
            return UNKNOWN if value.spread in {Spread.COUNT, Spread.RATE} else frozenset({replace(value, batch=False)})
        if isinstance(value, Made):
            if value.role is Role.SHAPE:
                return frozenset({Local(Spread.COUNT)}) if key == 0 else UNKNOWN
            if value.role in {Role.MODEL, Role.PARAMETERS, Role.DEVICE}:
                return frozenset({value})
            return heap.read_heap(value, f"[{key}]") | heap.read_heap(value, f"[{ANY}]")
        if isinstance(value, Instance) and self.facts.role(value) is Role.MODEL:
            return frozenset({value})
        if isinstance(value, Ref):
            return frozenset({Ref(f"{value.name}.{key if isinstance(key, str) else ANY}")})
        return UNKNOWN

    def _all_elements(self, box: Box) -> Values:
        found: set[Value] = set()
        for (owner, _), values in list(self.machine.heap.items()):
            if owner == box:
                found |= values
        return frozenset(found)

    # -- iteration --------------------------------------------------------------------------------
    def iterate(self, values: Values, frame: Frame) -> Values:
        """What a loop over `values` yields."""
        found: set[Value] = set()
        for value in values:
            if isinstance(value, Box):
                found |= self._all_elements(value)
            elif self.facts.role(value) is Role.LOADER or (isinstance(value, Made) and value.detail == "batches"):
                found |= self.batch_of(value)
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                found |= self.machine.read_heap(value, "yields")
            elif isinstance(value, Local) and value.spread is Spread.SHARD:
                whole = value.batch or value.output
                found.add(replace(value, batch=False) if whole else Local(Spread.ROW))
            elif isinstance(value, Made) and value.role in {Role.PARAMETERS, Role.MODEL, Role.PROGRESS}:
                found.add(value)
            elif isinstance(value, Instance):
                found |= self._iterate_instance(value, frame)
        return frozenset(found)

    def taken_by(self, loop: ast.For | ast.AsyncFor, iterated: Values, frame: Frame) -> Values:
        """What `loop` yields; batches of its loader are taken there, unless a `zip` took them from several."""
        found = self.iterate(iterated, frame)
        return frozenset(v if not isinstance(v, Local) or v.taken else replace(v, taken=frozenset({loop})) for v in found)

    def batch_of(self, value: Value) -> Values:
        """What the loader `value` yields: slices, or whole batches where nobody prepares it."""
        return UNKNOWN if value in self.facts.looked_at else frozenset({Local(Spread.SHARD, host=True, batch=True)})

    def _iterate_instance(self, value: Instance, frame: Frame) -> Values:
        method = find_method(self.facts, value.cls.node, "__iter__")
        if method is None or self.facts.role(value) is Role.MODEL:
            return UNKNOWN
        env = self.machine.function_env(method, [], {}, frozenset({value}))
        returned = self.machine.run_function(method, self.facts.scopes[method], env, value)
        yielded = self.machine.read_heap(method, "yield")
        self.machine.write_heap(value, "yields", yielded)
        return yielded | (self.iterate(frozenset(v for v in returned if v != value), frame) if returned else UNKNOWN)

    def on_Yield(self, node: ast.Yield, frame: Frame) -> Values:
        if node.value is not None:
            self.machine.write_heap(frame.scope.node, "yield", self.eval(node.value, frame))
        return UNKNOWN

    def on_YieldFrom(self, node: ast.YieldFrom, frame: Frame) -> Values:
        values = self.eval(node.value, frame)
        self.machine.write_heap(frame.scope.node, "yield", self.iterate(values, frame))
        self.machine.write_heap(frame.scope.node, "sources", frozenset(self.loaders_of(values)))
        return UNKNOWN

    def on_Await(self, node: ast.Await, frame: Frame) -> Values:
        return self.eval(node.value, frame)

    def loaders_of(self, values: Values) -> set[Value]:
        """The loaders over which a loop over `values` runs, through `enumerate`, `tqdm`, `zip` and kin."""
        found: set[Value] = set()
        for value in values:
            if self.facts.role(value) is Role.LOADER:
                found.add(value)
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                found |= self.loaders_of(self.machine.read_heap(value, "sources"))
            elif isinstance(value, Instance) and Spread.SHARD in ops.spreads(self._deep(self.machine.read_heap(value, "yields"))):
                found.add(value)
                method = find_method(self.facts, value.cls.node, "__iter__")
                found |= self.machine.read_heap(method, "sources")
        return found

    def box(self, site: ast.AST) -> Box:
        """The container written at `site`, here."""
        loops = self.machine.loader_loops
        return Box(site, loops[-1].node if loops else None, self.machine.given_rows)

    def _deep(self, values: Values) -> Values:
        found = set(values)
        for value in values:
            if isinstance(value, Box):
                found |= self._all_elements(value)
        return frozenset(found)

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, frame: Frame) -> Values:
        from accel_migrate.facts.machine import Frame as NewFrame

        inner = NewFrame(frame.scope, dict(frame.env), receiver=frame.receiver, temporary=True)
        entered = []
        for generator in node.generators:
            iterated = self.eval(generator.iter, inner)
            entered.append(self.machine.enter_loader_loop(generator, iterated, inner))
            self.machine.assign(generator.target, self.iterate(iterated, inner), inner, self._statement(node))  # type: ignore[arg-type]
            for condition in generator.ifs:
                self.test(condition, inner)
        box = self.box(node)
        if isinstance(node, ast.DictComp):
            self.eval(node.key, inner)
            values = self.eval(node.value, inner)
        else:
            values = self.eval(node.elt, inner)
        if any(loop is not None for loop in entered):
            self.keep_results(values)
            if not isinstance(node, ast.DictComp) and self._is_figure(values):
                self.convert(node.elt, values, inner, "collect")
                values = frozenset(v for v in values if not isinstance(v, Local))
        for loop in entered:
            self.machine.leave_loader_loop(loop)
        self.machine.write_heap(box, ANY, values)
        return frozenset({box}) | frozenset(v for v in values if isinstance(v, Local) and v.spread is Spread.SHARD)

    on_ListComp = on_SetComp = on_GeneratorExp = on_DictComp = comprehension

    # -- operators --------------------------------------------------------------------------------
    def on_BinOp(self, node: ast.BinOp, frame: Frame) -> Values:
        left, right = self.eval(node.left, frame), self.eval(node.right, frame)
        if isinstance(node.op, ast.Mod) and any(isinstance(v, Literal) and isinstance(v.value, str) for v in left):
            for part in node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]:
                self.convert(part, self.facts.of(part), frame, "print")
            return UNKNOWN
        for number, values, rows in ((node.right, right, left), (node.left, left, right)):
            if Spread.SHARD in ops.spreads(rows) and ops.spreads(values) and ops.spreads(values) <= {Spread.COUNT, Spread.RATE}:
                self.convert(number, values, frame, "count")  # `(losses / len(x)).sum()` divides by the global batch
        objects = frozenset(v for v in left | right if isinstance(v, Made | Box) and not self._is_device(v))
        return ops.combine(node.op, left, right, node.right) | (objects if isinstance(node.op, ast.Add) else UNKNOWN)

    def _is_device(self, value: Value) -> bool:
        return isinstance(value, Made) and value.role is Role.DEVICE

    def augmented(self, node: ast.AugAssign, old: Values, new: Values, frame: Frame) -> Values:
        """The value of the target after `target op= value`."""
        per_batch = isinstance(node.target, ast.Name) and self._is_per_batch(node.target.id, frame)
        if not locals_of(old) and locals_of(new) and not per_batch and not self._feeds_backward(node.target, frame):
            self.convert(node.value, new, frame, "collect")
            return frozenset(v for v in old if not isinstance(v, Literal))
        return ops.combine(node.op, old, new, node.value) | frozenset(v for v in old | new if isinstance(v, Made | Box))

    def _is_per_batch(self, name: str, frame: Frame) -> bool:
        """Whether the variable `name` starts anew with every batch: it is bound inside the loop over the loader, or in
        a function called from there."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        if loop is None or frame.scope is not loop.scope:
            return loop is not None
        stores = [n for n in ast.walk(loop.node) if isinstance(n, ast.Assign | ast.AnnAssign | ast.For)]
        targets = [t for s in stores for t in (s.targets if isinstance(s, ast.Assign) else [s.target])]
        return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for t in targets for n in ast.walk(t))

    def fill(self, target: ast.Subscript, values: Values, frame: Frame, statement: ast.stmt) -> None:
        """`kept[start:start + n] = rows`, where `kept` outlives the batch: places and rows are those of the global batch."""
        kept = self.eval(target.value, frame)
        if not self.machine.loader_loops or locals_of(kept) or not isinstance(statement, ast.Assign):
            return
        if isinstance(target.value, ast.Name) and self._is_per_batch(target.value.id, frame):
            return
        index = [target.slice.lower, target.slice.upper] if isinstance(target.slice, ast.Slice) else [target.slice]
        for node in index:
            place = self.eval(node, frame) if node is not None else UNKNOWN
            if node is not None and ops.spreads(place) & {Spread.COUNT, Spread.SHARD}:
                self.convert(node, place, frame, "collect")
        if ops.spreads(values) == {Spread.SHARD}:
            self.convert(statement.value, values, frame, "collect")

    def made_per_batch(self, site: ast.AST) -> bool:
        """Whether the container written at `site` starts anew with every batch."""
        loop = self.machine.loader_loops[-1] if self.machine.loader_loops else None
        if loop is None:
            return False
        return self.facts.inside(site, loop.node) or self.facts.function(site) in self.machine.stack[loop.depth :]

    def _feeds_backward(self, target: ast.expr, frame: Frame) -> bool:
        text = ast.unparse(target)
        return any(b.scope is frame.scope and text in {ast.unparse(n) for n in ast.walk(b.loss) if isinstance(n, ast.Name | ast.Attribute)}
                   for b in self.facts.backwards.values())  # fmt: skip

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
            return ops.local(Spread.SHARD, *values, truth=True)
        if not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
            for operand, value in zip((node.left, *node.comparators), values, strict=True):
                if ops.spreads(value) and not ops.spreads(value) & {Spread.COUNT, Spread.RATE}:
                    self.convert(operand, value, frame, "test")
        return UNKNOWN

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
        for value in self.eval(decorator, frame):
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
            if frame.env.get(node.value.id) != frozenset({frame.receiver}) or self.machine.read_heap(frame.receiver.cls, f"unknown {node.attr}"):
                return None
            values = self.machine.read_heap(frame.receiver.cls, node.attr)
        else:
            return None
        value = next(iter(values), None)
        return value.value if len(values) == 1 and isinstance(value, Literal) and isinstance(value.value, str) else None

    def convert(self, node: ast.expr, values: Values, frame: Frame, how: str) -> None:
        """Notes that the value of `node` leaves the tensors here."""
        if how == "test" and ops.spreads(values) == {Spread.ROW}:
            return  # asked of one row, for that row
        if locals_of(values) and node not in self.facts.conversions:
            self.facts.conversions[node] = Conversion(node, values, frame.scope, how, self._statement(node))

    # -- imports ------------------------------------------------------------------------------------
    def absolute(self, node: ast.ImportFrom, frame: Frame) -> str:
        """The full module name of a `from` import, relative ones resolved."""
        if not node.level:
            return node.module or ""
        source = frame.scope.source
        package = source.module.split(".") if source.is_package else source.module.split(".")[:-1]
        base = package[: len(package) - node.level + 1]
        return ".".join([*base, *([node.module] if node.module else [])])

    def imported(self, module: str, name: str | None, frame: Frame) -> Values:
        """The value of `import module` or `from module import name`."""
        full = module if name is None else f"{module}.{name}"
        source = self.machine.project_module(full, frame)
        if source is not None:
            return frozenset({ModuleValue(source)})
        if name is not None:
            parent = self.machine.project_module(module, frame)
            if parent is not None:
                return self.module_member(ModuleValue(parent), name)
        return frozenset({Ref(full)})

    def star_import(self, module: str, frame: Frame) -> None:
        source = self.machine.project_module(module, frame)
        scope = frame.scope.module
        if source is None:
            return
        other = self.facts.scopes[source.tree]
        for (owner, name), values in list(self.machine.cells.items()):
            if owner is other and not name.startswith("_"):
                self.machine.write_heap(scope, f"star {name}", values)
        for (owner, key), values in list(self.machine.heap.items()):
            if owner is other and isinstance(key, str) and key.startswith("star "):
                self.machine.write_heap(scope, key, values)

    # -- small questions ----------------------------------------------------------------------------
    def class_or_name(self, value: Value) -> str | ast.ClassDef | None:
        if isinstance(value, Ref):
            return value.name
        return value.node if isinstance(value, ClassValue) else None

    def disables_grad(self, node: ast.expr, frame: Frame) -> bool:
        """Whether `node`, a context manager or decorator, is `torch.no_grad()` or its kin."""
        callee = node.func if isinstance(node, ast.Call) else node
        refs = {v.name for v in self.eval(callee, frame) if isinstance(v, Ref)}
        if refs & catalog.NO_GRAD:
            return True
        return "torch.set_grad_enabled" in refs and isinstance(node, ast.Call) and any(
            isinstance(a, ast.Constant) and a.value is False for a in node.args
        )

    def scope_of(self, node: ast.AST) -> Scope:
        return self.facts.scopes[node]


def value_site(node: ast.AST) -> ast.AST:
    return node
