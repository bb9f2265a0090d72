"""Comprehensions and generator expressions: over a loader, what they keep outlives the batch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import operations as ops
from accel_migrate.facts.containers import ANY
from accel_migrate.facts.effects import external_name
from accel_migrate.facts.values import UNKNOWN, Box, Local, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Loop
    from accel_migrate.facts.machine import Frame

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Comprehensions:
    """Part of `Evaluator`."""

    def comprehension(self, node: Comprehension, frame: Frame) -> Values:
        from accel_migrate.facts.machine import Frame as NewFrame

        inner = NewFrame(frame.scope, dict(frame.env), receiver=frame.receiver, temporary=True)
        entered: list[Loop] = []
        for generator in node.generators:
            iterated = self.eval(generator.iter, inner)
            loop = self.machine.enter_loader_loop(generator, iterated, inner)
            if loop is not None:
                entered.append(loop)
            whole = loop is None and bool(entered) and not entered[-1].trains and self._gather_iterated(generator.iter, inner)
            iterated = self.figures_in(generator.iter, iterated, inner)
            self.machine.assign(generator.target, UNKNOWN if whole else self.iterate(iterated, inner), inner, self._statement(node))  # type: ignore[arg-type]
            for condition in generator.ifs:
                self.test(condition, inner)
        box = self.box(node)
        if isinstance(node, ast.DictComp):
            self.eval(node.key, inner)
        element = node.value if isinstance(node, ast.DictComp) else node.elt
        values = self.eval(element, inner)
        if entered:
            values = self._kept_over_batches(element, values, inner, entered[-1])
        for loop in entered:
            self.machine.leave_loader_loop(loop)
        self.machine.write_heap(box, ANY, values)
        rows = self._iterated_rows(node.generators) if not isinstance(node, ast.DictComp) else UNKNOWN
        if rows:
            return frozenset({box}) | ops.local(Spread.SHARD, rows, axis=0)  # one element for each row
        if not any(locals_of(self._deep(self.facts.of(part))) for g in node.generators for part in ast.walk(g.iter) if isinstance(part, ast.expr)):
            return frozenset({box})  # `[model(x) for model in models]`: a list of tensors with rows, as a list display makes one
        return frozenset({box}) | frozenset(v for v in values if isinstance(v, Local) and v.spread is Spread.SHARD and not v.whole)

    on_ListComp = on_SetComp = on_GeneratorExp = on_DictComp = comprehension

    def _gather_iterated(self, node: ast.expr, frame: Frame) -> bool:
        """`for row in model(x)` inside a comprehension over a loader: the rows are those of the global batch."""
        parts = node.args if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"zip", "enumerate"} else [node]
        rows = [part for part in parts if self._is_rows(self.facts.of(part))]
        for part in rows:
            self.convert(part, self.facts.of(part), frame, "collect")
        return bool(rows)

    def _iterated_rows(self, generators: list[ast.comprehension]) -> Values:
        """The rows for each of which a comprehension makes one element: those of `x`, and of all parts of `zip(x, y)`."""
        if len(generators) > 1 or generators[0].ifs:
            return UNKNOWN
        iterated = generators[0].iter
        if self._is_rows(self.facts.of(iterated)):
            return self.facts.of(iterated)
        zipped = iterated.args if isinstance(iterated, ast.Call) and self.machine.ask(external_name, iterated) == "zip" else []
        parts = [self.facts.of(part) for part in zipped]
        single = parts and all(self._is_rows(part) and not any(v.output for v in locals_of(part)) for part in parts)
        return frozenset(v for part in parts for v in locals_of(part)) if single else UNKNOWN

    def _is_rows(self, values: Values) -> bool:
        return ops.spreads(values) == {Spread.SHARD} and not any(v.batch for v in locals_of(values))

    def _kept_over_batches(self, element: ast.expr, values: Values, frame: Frame, loop: Loop) -> Values:
        """What is left of `values`, kept for each batch of `loop`, once figures and results of models are global."""
        self.keep_results(values)
        results = not loop.trains and self._holds_results(element, loop)
        if self._is_figure(values) or (results and self._is_rows(values)):
            self.convert(_on_device(element), values, frame, "collect")
            return frozenset(v for v in values if not isinstance(v, Local))
        parts = element.elts if isinstance(element, ast.Tuple | ast.List) else []
        if results and parts and all(self._is_rows(self.facts.of(part)) for part in parts):
            self._convert_together(element, parts, frame)
            return frozenset(v for v in values if not isinstance(v, Box))
        return values

    def _convert_together(self, element: ast.expr, parts: list[ast.expr], frame: Frame) -> None:
        """One gather of all `parts` of `element`, or one for each where some of them stay on the host."""
        if any(_on_device(part) is not part or all(v.host for v in locals_of(self.facts.of(part))) for part in parts):
            for part in parts:
                self.convert(_on_device(part), self.facts.of(part), frame, "collect")
        else:
            self.convert(element, ops.local(Spread.SHARD, *(self.facts.of(part) for part in parts)), frame, "collect")

    def _holds_results(self, element: ast.expr, loop: Loop) -> bool:
        """Whether `element` is more than the batch itself: a result of a model, or a part next to which models run elsewhere."""
        if any(call in self.facts.forwards or self.facts.callees.get(call) for call in ast.walk(element) if isinstance(call, ast.Call)):
            return True
        return not isinstance(element, ast.Tuple | ast.List) and not any(v.batch for v in locals_of(self.facts.of(element)))


def _on_device(element: ast.expr) -> ast.expr:
    """`model(x)` of `model(x).cpu()`: rows are gathered where they are."""
    while isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute) and element.func.attr == "cpu":
        element = element.func.value
    return element
