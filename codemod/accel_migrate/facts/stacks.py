"""Modules of the project inside `nn.Sequential`, `nn.ModuleList` and `nn.ModuleDict`, and hooks on modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import UNKNOWN, Function, Instance, Made, Role, Value, Values

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Frame

STACKS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"}
PART = "part "
"""What a stack's heap keys of the modules in it start with; their places follow."""


class Stacks:
    """Part of `Calls`."""

    def note_stacked(self, stack: Made, places: list[Values]) -> None:
        """Remembers which modules stand at which places of `stack`; those of a list or dict share one."""
        for i, values in enumerate(places):
            modules = frozenset(v for v in self.evaluator._deep(values) if self.facts.role(v) is Role.MODEL)
            self.machine.write_heap(stack, f"{PART}{i:04}", modules)

    def stacked(self, stack: Value) -> list[Values]:
        """The modules in `stack`, place by place, if one of them has a forward pass of the project; else nothing."""
        if not isinstance(stack, Made) or stack.detail not in STACKS:
            return []
        places = sorted((key, values) for key, values in self.machine.held_by(stack) if isinstance(key, str) and key.startswith(PART))
        return [values for _, values in places] if any(self._is_of_project(v) for _, values in places for v in values) else []

    def _is_of_project(self, module: Value) -> bool:
        return isinstance(module, Instance) or bool(self.stacked(module))

    def taken_from(self, stack: Value, key: object) -> Values:
        """The modules that `stack[key]` may be, and those that a loop over it yields."""
        places = self.stacked(stack)
        single = all(len(values) == 1 for values in places)
        if single and isinstance(key, int) and -len(places) <= key < len(places):
            return places[key]
        return frozenset().union(*places)

    def run_stack(self, stack: Made, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        """What `stack(x)` returns: its modules run one after the other."""
        from accel_migrate.facts.calls import Arguments

        values = args.get(0, "input")
        for modules in self.stacked(stack):
            given = Arguments([values], {}, node.args[:1], {})
            values = frozenset().union(*(self._run_module(module, node, given, frame) for module in in_order(modules)))
        return values or self.model_output(args, tensor=True)

    def _run_module(self, module: Value, node: ast.Call, args: Arguments, frame: Frame) -> Values:
        if isinstance(module, Instance):
            return self.run_forward(module, node, args)
        return self.run_stack(module, node, args, frame) if self.stacked(module) else self.model_output(args, tensor=True)

    # -- hooks --------------------------------------------------------------------------------------
    def note_hook(self, values: Values, before: bool) -> None:
        """Remembers functions that every forward pass calls with rows: `hook(module, inputs, output)`."""
        hooks = frozenset(v for v in values if isinstance(v, Function))
        self.machine.write_heap(Stacks, "pre hooks" if before else "hooks", hooks)

    def run_hooks(self, args: Arguments, frame: Frame) -> None:
        """A forward pass runs all hooks: which of the modules they watch passes on rows is not followed."""
        rows = self.model_output(args, tensor=True)
        for key, given in (("pre hooks", [UNKNOWN, rows]), ("hooks", [UNKNOWN, rows, rows])):
            for hook in in_order(self.machine.read_heap(Stacks, key)):
                bound = frozenset({hook.receiver}) if hook.receiver is not None else None  # type: ignore[union-attr]
                env = self.machine.function_env(hook.node, given, {}, bound)  # type: ignore[union-attr]
                self.machine.run_function(hook.node, hook.scope, env, hook.receiver)  # type: ignore[union-attr]
