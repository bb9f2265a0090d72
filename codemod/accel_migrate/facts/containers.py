"""Tuples, lists, dicts and what loops over them, or over loaders, yield."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts import packed
from accel_migrate.facts.classes import find_method, is_record, record_fields
from accel_migrate.facts.counters import is_counter
from accel_migrate.facts.graphs import joined_by
from accel_migrate.facts.joined import joined_fields
from accel_migrate.facts.prepared import is_sharded
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import (
    TRAINABLE,
    UNKNOWN,
    Box,
    Instance,
    Literal,
    Local,
    Made,
    ModuleValue,
    Prepared,
    Ref,
    Role,
    Spread,
    Value,
    Values,
    altered,
    locals_of,
)

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

ANY = "*"
"""Heap key of an element whose index or key is not a constant."""
ENTRIES = {Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.MIXED}
"""Spreads of vectors each entry of which is such a figure, too."""
MAPPING = {"items", "keys", "values"}
"""Methods that only dicts and their kin have."""


class Containers:
    """Part of `Evaluator`."""

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

    def key(self, node: ast.expr, frame: Frame) -> object:
        values = self.eval(node, frame)
        literals = [v.value for v in values if isinstance(v, Literal)]
        return literals[0] if len(literals) == 1 and len(values) <= 2 else ANY

    def _names_kept(self, node: ast.expr, frame: Frame) -> list[object]:
        """The keys that `self.key` may be, where every instance was given a text for it; else any."""
        values = self.facts.of(node)
        texts = [v.value for v in values if isinstance(v, Literal) and isinstance(v.value, str)]
        own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and frame.receiver is not None
        if not own or len(texts) != len(values) or frame.env.get(node.value.id) != frozenset({frame.receiver}):  # type: ignore[attr-defined, union-attr]
            return [ANY]
        known = not self.machine.read_attribute(frame.receiver, f"unknown {node.attr}")  # type: ignore[union-attr, attr-defined]
        return sorted(texts) if texts and known else [ANY]  # type: ignore[return-value]

    def on_Subscript(self, node: ast.Subscript, frame: Frame) -> Values:
        base = self.eval(node.value, frame)
        if isinstance(node.slice, ast.Slice):
            self.on_other(node.slice, frame)  # type: ignore[arg-type]
            self.bound_by_rows(node, base, frame)
            picked = self.picked_by_hand(node, base, UNKNOWN, frame)
            if picked is not None:
                return picked
            return ops.sliced(frozenset(v for v in base if not (isinstance(v, Made) and v.role is Role.SHAPE)), node, self._bounds(node.slice))
        from_end = _from_end(node.slice)
        key = self.key(node.slice, frame) if from_end is None else from_end
        self.bound_by_rows(node, base, frame)
        picked = self.picked_by_hand(node, base, self.facts.of(node.slice), frame)
        if picked is not None:
            return picked
        keys = self._names_kept(node.slice, frame) if key == ANY else [key]
        found = ops.picked(frozenset().union(*(self.element(base, k, frame) for k in keys)), base, node.slice)
        if (isinstance(node.slice, ast.Tuple) and not _is_key(node.slice)) or (isinstance(node.slice, ast.Constant) and node.slice.value is None):
            found = ops.indexed(found, node.slice)
        if isinstance(node.slice, ast.Tuple) and node.slice.elts and isinstance(node.slice.elts[0], ast.Slice):
            found = ops.sliced(found, node, self._bounds(node.slice.elts[0]))
        if ops.spreads(base) == {Spread.SHARD} and not any(v.batch or v.output for v in locals_of(base)) and is_counter(self.facts, node.slice):
            found = ops.counted(found, node)
        return ops.chosen(found, self.facts.of(node.slice), node.slice)

    def _bounds(self, cut: ast.Slice) -> list[Values]:
        return [self.facts.of(bound.operand if isinstance(bound, ast.UnaryOp) else bound) for bound in (cut.lower, cut.upper, cut.step) if bound is not None]

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
            if isinstance(key, int) and key < 0 and isinstance(value.site, ast.Tuple | ast.List) and not heap.read_heap(value, ANY):
                return heap.read_heap(value, len(value.site.elts) + key)
            if key == ANY or (isinstance(key, int) and key < 0):
                keyed = self._all_elements(value)
            return keyed
        if isinstance(value, Local):
            if value.output and (key == "loss" or (value.labelled and key == 0)):
                return self._returned_loss(value)
            if value.packed is not None and key == 0:
                return frozenset({packed.data(value)})
            return UNKNOWN if value.spread in {Spread.COUNT, Spread.RATE} else frozenset({ops.field(value, key)})
        if isinstance(value, Made):
            if value.role is Role.SHAPE:
                counts = {f"shape {key}": Spread.COUNT, f"filtered {key}": Spread.SUM}
                return frozenset({Local(counts[value.detail])}) if value.detail in counts else UNKNOWN
            if value.role is Role.WRITER:
                return frozenset({value})
            if value.role in {Role.MODEL, Role.PARAMETERS, Role.DEVICE}:
                return self.calls.taken_from(value, key) or frozenset({value})
            return heap.read_heap(value, f"[{key}]") | heap.read_heap(value, f"[{ANY}]")
        if isinstance(value, Instance) and self.facts.role(value) is Role.MODEL:
            return frozenset({value})
        if isinstance(value, Instance) and is_record(self.facts, value.cls.node):
            return frozenset().union(*(heap.read_attribute(value, name) for name in self._fields(value, key)))
        if value is TRAINABLE:
            return frozenset({value})
        if isinstance(value, Ref):
            return frozenset({Ref(f"{value.name}.{key if isinstance(key, str) else ANY}")})
        if isinstance(value, ModuleValue):
            return self.module_member(value, key) if isinstance(key, str) and key != ANY else self.any_member(value)
        return UNKNOWN

    def _fields(self, record: Instance, key: object) -> list[str]:
        """The fields that `record[key]` may be."""
        fields = record_fields(record.cls.node)
        if isinstance(key, int) and -len(fields) <= key < len(fields):
            return [fields[key]]
        return [key] if key in fields else fields  # type: ignore[list-item]

    def as_mapping(self, func: ast.Attribute, values: Values) -> Values:
        """`values` of which `items()` and kin are called: a dict, where one of them is; a model may return rows elsewhere."""
        mappings = {v for v in values if isinstance(v, Box) and isinstance(v.site, ast.Dict | ast.DictComp)} if func.attr in MAPPING else set()
        return frozenset(v for v in values if v in mappings or not isinstance(v, Box | Local)) if mappings else values

    def _all_elements(self, box: Box) -> Values:
        return frozenset().union(*(values for _, values in self.machine.held_by(box)))

    def iterate(self, values: Values, frame: Frame) -> Values:
        """What a loop over `values` yields."""
        found: set[Value] = set()
        for value in in_order(values):
            if isinstance(value, Box):
                found |= self._all_elements(value)
            elif self.facts.role(value) is Role.LOADER or (isinstance(value, Made) and value.detail == "batches"):
                found |= UNKNOWN if self.machine.accelerated and not is_sharded(self.machine, value, values) else self.batch_of(value)
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                found |= self.machine.read_heap(value, "yields")
            elif isinstance(value, Local) and value.spread is Spread.SHARD and not value.whole:  # a single row of whole ones is the same on all processes
                fields = value.batch or value.output
                found.add(altered(value, batch=False) if fields else Local(Spread.ROW, taken=value.taken))
            elif isinstance(value, Made) and value.role in {Role.PARAMETERS, Role.MODEL, Role.PROGRESS}:
                found |= self.calls.taken_from(value, ANY) or {value}
            elif value is TRAINABLE or (isinstance(value, Local) and value.spread in ENTRIES):
                found.add(value)
            elif isinstance(value, Instance):
                found |= self._iterate_instance(value, frame)
        return frozenset(found)

    def taken_by(self, loop: ast.For | ast.AsyncFor, iterated: Values, frame: Frame) -> Values:
        """What `loop` yields; batches of its loader are taken there, unless a `zip` took them from several."""
        iterated = self.figures_in(loop.iter, iterated, frame)
        found = self.iterate(iterated, frame)
        return frozenset(v if not isinstance(v, Local) or v.taken else altered(v, taken=frozenset({loop})) for v in found)

    def figures_in(self, node: ast.expr, iterated: Values, frame: Frame) -> Values:
        """Figures that a loop takes one after the other, `for p in out.mean(0)`, become global together; gradients need each as it is."""
        figures = locals_of(iterated)
        if not figures or any(v.grad or v.spread not in ENTRIES for v in figures) or len(figures) < len(iterated):
            return iterated
        self.convert(node, iterated, frame, "array")
        return UNKNOWN

    def batch_of(self, value: Value) -> Values:
        """What the loader `value` yields: slices, or whole batches where nobody prepares it."""
        self.machine.spoil()
        if value in self.facts.looked_at:
            return UNKNOWN
        fields = joined_fields(self.facts, self.machine.read_heap(value, "argument collate_fn")) | joined_by(value)
        return frozenset({Local(Spread.SHARD, host=True, batch=True, fields="".join(sorted(f"|{key}|" for key in fields)))})

    def _iterate_instance(self, value: Instance, frame: Frame) -> Values:
        if self.calls.stacked(value):
            return self.calls.taken_from(value, ANY)
        method = find_method(self.facts, value.cls.node, "__iter__")
        if method is None and is_record(self.facts, value.cls.node):
            return self._element(value, ANY)
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

    def loaders_of(self, values: Values) -> set[Value]:
        """The loaders over which a loop over `values` runs, through `enumerate`, `tqdm`, `zip` and kin."""
        found: set[Value] = set()
        for value in values:
            if self.facts.role(value) is Role.LOADER or isinstance(value, Prepared):
                found.add(value)
            elif isinstance(value, Made) and value.detail.startswith("iter:"):
                found |= self.loaders_of(self.machine.read_heap(value, "sources"))
            elif isinstance(value, Instance) and any(v.spread is Spread.SHARD and not v.whole for v in locals_of(self._deep(self.machine.read_heap(value, "yields")))):
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


def _from_end(node: ast.expr) -> int | None:
    """The index `-1` and its kin."""
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    value = node.operand.value if negative else None  # type: ignore[attr-defined]
    return -value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_key(index: ast.Tuple) -> bool:
    """Whether `index` is a key of a dict, `("color", 0)`, and no index of a tensor."""
    return any(isinstance(entry, ast.Constant) and isinstance(entry.value, str) for entry in index.elts)
