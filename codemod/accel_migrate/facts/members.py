"""What names, attributes and imports stand for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog, packed
from accel_migrate.facts import operations as ops
from accel_migrate.facts.classes import ancestry, own_method
from accel_migrate.facts.effects import module_named
from accel_migrate.facts.sequence import in_order
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
    ModuleValue,
    Ref,
    Role,
    Spread,
    Value,
    Values,
)

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

BUILTINS = {"enumerate", "zip", "iter", "next", "len", "float", "int", "print", "list", "tuple", "dict", "sum", "range", "filter",
            "map", "reversed", "sorted", "open", "str", "max", "min", "super", "getattr", "hasattr", "isinstance", "vars", "abs",
            "round", "set", "slice", "input", "type", "bool", "format", "repr", "__import__"}  # fmt: skip


class Members:
    """Part of `Evaluator`."""

    def on_Name(self, node: ast.Name, frame: Frame) -> Values:
        return self.machine.read_name(node.id, frame)

    def builtin(self, name: str, frame: Frame) -> Values:
        star = self.machine.read_heap(frame.scope.module, f"star {name}")
        if star:
            return star
        return frozenset({Ref(name)}) if name in BUILTINS else UNKNOWN

    def on_Attribute(self, node: ast.Attribute, frame: Frame) -> Values:
        found: set[Value] = set()
        for value in in_order(self.eval(node.value, frame)):
            found |= self.attribute(value, node.attr, node, frame)
        return frozenset(found)

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Values:
        machine = self.machine
        if isinstance(value, Ref):
            return frozenset({value if name == "__dict__" else Ref(f"{value.name}.{name}")})
        if isinstance(value, ModuleValue):
            return frozenset({value}) if name == "__dict__" else self.module_member(value, name)
        if isinstance(value, Instance):
            return self._instance_attribute(value, name)
        if isinstance(value, ClassValue):
            return self._class_attribute(value, name, None)
        if isinstance(value, Made):
            return self._made_attribute(value, name)
        if isinstance(value, Local):
            if value.spread is Spread.SHARD and name == "shape":
                return frozenset({Made(Role.SHAPE, node, ops.shape_of(value))})
            if value.output and name == "loss":
                return self._returned_loss(value)
            if value.batch and name in catalog.BATCH_SIZES:
                return frozenset({Local(Spread.COUNT)})
            if value.packed is not None and name == "data":
                return frozenset({packed.data(value)})
            if name in catalog.TENSOR_FACTS:
                return UNKNOWN
            if name in catalog.DETACHING:
                return ops.without_grad(frozenset({value}))
            if value.spread is Spread.SHARD and name in {"T", "mT"}:
                return ops.shaped(name, frozenset({value}), [])
            if value.batch and f"|{name}|" in value.fields:
                return frozenset({ops.field(value, name)})
            return frozenset({value}) if value.spread is Spread.SHARD or name in {"data", "T", "real", "grad"} else UNKNOWN
        if isinstance(value, Box) and isinstance(value.site, ast.Call):
            return machine.read_heap(value, name)  # a named tuple
        return UNKNOWN

    def module_member(self, module: ModuleValue, name: str) -> Values:
        scope = self.facts.scopes[module.source.tree]
        found = self.machine.read_cell(scope, name) or self.machine.read_heap(scope, f"star {name}")
        if found or not module.source.is_package:
            return found
        inner = self.machine.ask(module_named, f"{module.source.module}.{name}")
        return UNKNOWN if inner is None else frozenset({ModuleValue(inner)})

    def any_member(self, module: ModuleValue) -> Values:
        """What a name chosen while the program runs may mean: the classes and functions of the project that `module` offers."""
        scope = self.facts.scopes[module.source.tree]
        names = [name for name in scope.bound if not name.startswith("_")]
        offered = [self.machine.read_cell(scope, name) for name in names]
        offered += [values for key, values in self.machine.held_by(scope) if isinstance(key, str) and key.startswith("star ")]
        return frozenset(v for values in offered for v in values if isinstance(v, ClassValue | Function))

    def _instance_attribute(self, value: Instance, name: str) -> Values:
        stored = self.machine.read_attribute(value, name)
        inherited = self._class_attribute(value.cls, name, value)
        if name == "param_groups" and self.facts.class_role(value.cls) is Role.OPTIMIZER:
            self.machine.spoil()
            return frozenset(Made(Role.PARAMETERS, site, catalog.PARAM_GROUPS) for site in self.facts.optimized[value.site]) | stored | inherited
        if name == "module" and not stored and not inherited and self.facts.role(value) is Role.MODEL:
            return frozenset({value})  # out of a wrapper
        if name == "_modules" and self.calls.stacked(value):
            return frozenset({value})  # its dict has the methods that the stack has
        return stored | inherited

    def _class_attribute(self, cls: ClassValue, name: str, receiver: Instance | None) -> Values:
        for base in ancestry(self.facts, cls.node):
            if isinstance(base, str):
                continue
            item = own_method(self.facts, base, name)
            if item is not None:
                return self._method(item, receiver, cls)
            stored = self.machine.read_heap(ClassValue(base, self.facts.scopes[base]), name)
            if stored and base is not cls.node:
                return stored
        return self.machine.read_heap(cls, name) if receiver is None else UNKNOWN

    def _method(self, item: ast.FunctionDef | ast.AsyncFunctionDef, receiver: Instance | None, cls: ClassValue) -> Values:
        decorators = [self.facts.text(d) for d in item.decorator_list]
        scope = self.facts.scopes[item]
        if "property" in decorators and receiver is not None:
            return self.machine.run_function(item, scope, self.machine.function_env(item, [], {}, frozenset({receiver})), receiver)
        if "staticmethod" in decorators:
            return frozenset({Function(item, scope)})
        if "classmethod" in decorators:
            return frozenset({Function(item, scope, owner=cls)})
        return frozenset({Function(item, scope, receiver)})

    def _made_attribute(self, value: Made, name: str) -> Values:
        stored = self.machine.read_heap(value, name)
        if value.role is Role.MODEL and not stored and name not in {"training"}:
            if name == "module":
                return frozenset({value})
            part = frozenset({Made(Role.OBJECT, value.site, f"model.{name}")})
            trainable = name in {"weight", "bias"}
            if trainable:
                self.machine.train_tensors()
            return part | {TRAINABLE} if trainable else part
        if name == "type" and value.detail in catalog.CURRENT_ACCELERATOR:
            return frozenset({value, Literal("cuda")})
        if value.role is Role.ACCELERATOR and name == "device":
            return frozenset({Made(Role.DEVICE, value.site, "accelerator.device")})
        if value.role is Role.NAMESPACE and not stored:
            return UNKNOWN
        return stored

    def _returned_loss(self, output: Local) -> Values:
        """The loss that a library's model returns: a mean, over targets that are not ignored where the program marks some so."""
        kind = Spread.RATIO if self.calls.library.marks_ignored() else Spread.MEAN
        return ops.local(kind, frozenset({output}))

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
        for name in sorted(other.bound):
            if not name.startswith("_"):
                self.machine.write_heap(scope, f"star {name}", self.machine.read_cell(other, name))
        for key, values in self.machine.held_by(other):
            if isinstance(key, str) and key.startswith("star "):
                self.machine.write_heap(scope, key, values)

    def class_or_name(self, value: Value) -> str | ast.ClassDef | None:
        if isinstance(value, Ref):
            return value.name
        return value.node if isinstance(value, ClassValue) else None
