"""Modules of the project inside `nn.Sequential`, `nn.ModuleList` and `nn.ModuleDict`, and hooks on modules."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import UNKNOWN, Function, Instance, Local, Made, Role, Value, Values

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments

STACKS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"}
PART = "part "
"""What a stack's heap keys of the modules in it start with; their places follow."""
ONE = " one"
"""What they end with where the place holds one module."""


class Stacks:
    """Part of `Calls`."""

    def stacks(self, value: Value) -> bool:
        """Whether `value` is a stack of the library, or of a class of the project that derives from one."""
        if isinstance(value, Instance):
            return not STACKS.isdisjoint(ancestry(self.facts, value.cls.node))
        return isinstance(value, Made) and value.detail in STACKS

    def note_stacked(self, stack: Made | Instance, places: list[Values], added: ast.Call | None = None) -> None:
        """Remembers which modules stand at which places of `stack`, or are added by the call `added`; those of a list or dict share one."""
        for i, values in enumerate(places):
            modules = frozenset(v for v in self._all_in(values) if self.facts.role(v) is Role.MODEL)
            place = f"{i:04}" if added is None else f"~{added.lineno:06}:{added.col_offset:04}{self._surely_one(stack, added)}"
            self.machine.write_heap(stack, PART + place, modules)

    def _surely_one(self, stack: Made | Instance, added: ast.Call) -> str:
        """The mark of one module, added whatever the settings are, where `stack` is made: all that may stand there are choices for it."""
        branches = any(isinstance(a, ast.If | ast.Try | ast.Match) for a in self.facts.ancestors(added))
        here = self.facts.function(stack.site) is self.facts.function(added)
        return ONE if here and isinstance(added.func, ast.Attribute) and added.func.attr == "append" and not branches else ""

    def _all_in(self, values: Values) -> Values:
        """What stands in a list, or in the pairs of an ordered dict."""
        found = self.evaluator._deep(values)
        return found | self.evaluator._deep(found)

    def stacked(self, stack: Value, around: frozenset[Value] = frozenset()) -> list[Values]:
        """The modules in `stack`, place by place, if one of them has a forward pass of the project; else nothing.

        `around`: the stacks that are being asked; one may be taken to hold itself.
        """
        if not self.stacks(stack) or stack in around:
            return []
        places = self._places(stack)
        return [values for _, values in places] if any(self._is_of_project(v, around | {stack}) for _, values in places for v in values) else []

    def _places(self, stack: Value) -> list[tuple[str, Values]]:
        held = self.machine.held_by(stack)
        return sorted((key, values) for key, values in held if isinstance(key, str) and key.startswith(PART))

    def _is_of_project(self, module: Value, around: frozenset[Value]) -> bool:
        return (isinstance(module, Instance) and not self.stacks(module)) or bool(self.stacked(module, around))

    def taken_from(self, stack: Value, key: object) -> Values:
        """The modules that `stack[key]` may be, and those that a loop over it yields."""
        places = self.stacked(stack)
        single = all(len(values) == 1 for values in places)
        if single and isinstance(key, int) and -len(places) <= key < len(places):
            return places[key]
        if places and key in {0, -1} and self._places(stack)[key][0].endswith(ONE):  # type: ignore[index]
            return places[key]  # type: ignore[index]
        return frozenset().union(*places)

    def run_stack(self, stack: Made | Instance, node: ast.Call, args: Arguments, around: frozenset[Value] = frozenset()) -> Values:
        """What `stack(x)` returns: its modules run one after the other. `around`: the stacks that are running."""
        from accel_migrate.facts.calls import Arguments

        values = args.get(0, "input")
        for modules in self.stacked(stack):
            if len(modules) > 1:  # in an order that is not known: what one makes is given to another
                values = frozenset().union(*(self._with_gradients(v) for v in values))
            given = Arguments([values], {}, node.args[:1], {})
            unknown = UNKNOWN if modules else self.model_output(given, tensor=True)
            values = unknown.union(*(self._run_module(module, node, given, around | {stack}) for module in in_order(modules)))
        return values or self.model_output(args, tensor=True)

    def _with_gradients(self, value: Value) -> Values:
        return frozenset({replace(value, grad=value.grad or not self.machine.no_grad) if isinstance(value, Local) else value})

    def _run_module(self, module: Value, node: ast.Call, args: Arguments, around: frozenset[Value]) -> Values:
        if isinstance(module, Instance):
            return self.run_forward(module, node, args)
        return self.run_stack(module, node, args, around) if module not in around and self.stacked(module) else self.model_output(args, tensor=True)

    # -- hooks --------------------------------------------------------------------------------------
    def note_hook(self, module: Made | Instance, values: Values, before: bool) -> None:
        """Remembers functions that a forward pass of `module`, or of what it is part of, calls with rows: `hook(module, inputs, output)`."""
        hooks = frozenset(v for v in values if isinstance(v, Function))
        self.machine.write_heap(Stacks, (module.site, before), hooks)

    def run_hooks(self, model: Value, args: Arguments) -> None:
        """A forward pass of `model` runs its hooks and those of its parts."""
        rows = self.model_output(args, tensor=True)
        for (watched, before), hooks in self.machine.held_by(Stacks):  # type: ignore[misc]
            self.machine.spoil()
            given = [UNKNOWN, rows] if before else [UNKNOWN, rows, rows]
            for hook in in_order(hooks) if self._contains(model, watched) else ():
                bound = frozenset({hook.receiver}) if hook.receiver is not None else None  # type: ignore[union-attr]
                env = self.machine.function_env(hook.node, given, {}, bound)  # type: ignore[union-attr]
                self.machine.run_function(hook.node, hook.scope, env, hook.receiver)  # type: ignore[union-attr]

    def _contains(self, model: Value, site: ast.AST) -> bool:
        """Whether the module made at `site` is `model` or, as far as is known, a part of it."""
        pending, seen = [site], set[ast.AST]()
        while pending:
            current = pending.pop()
            if current is model.site:  # type: ignore[union-attr]
                return True
            if current not in seen:
                seen.add(current)
                pending.extend(self.facts.parts_of.get(current, ()))
        return False
