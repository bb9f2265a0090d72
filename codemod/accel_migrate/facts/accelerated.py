"""Scripts that make an Accelerator already: are they finished, or was only a part of the work done?"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.facts import Binding, Facts
from accel_migrate.facts.values import Role

NAMES = {"accelerate.Accelerator", "accel_runtime.Accelerator"}
NAME = "accelerator"


def accelerator_calls(facts: Facts) -> list[ast.Call]:
    return [call for call, name in facts.external.items() if name in NAMES]


def has_method(facts: Facts, name: str) -> bool:
    """Whether the script calls this method of its accelerator."""
    return any(call.func.attr == name for call in _method_calls(facts))  # type: ignore[attr-defined]


def _method_calls(facts: Facts) -> Iterator[ast.Call]:
    for _, node in facts.nodes(ast.Call):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and facts.has_role(node.func.value, Role.ACCELERATOR):
            yield node


def is_half_done(facts: Facts) -> bool:
    """Whether an Accelerator is made, but its `backward` or `prepare` is never called although the script trains."""
    if not accelerator_calls(facts) or not any(b.with_loader for b in facts.backwards.values()):
        return False
    return not has_method(facts, "backward") or not has_method(facts, "prepare")


def binding_of_accelerator(facts: Facts) -> Binding | None:
    """Where `accelerator = Accelerator(...)` stands, if it has that name."""
    calls = accelerator_calls(facts)
    for binding in facts.bindings:
        named = isinstance(binding.target, ast.Name) and binding.target.id == NAME
        if named and getattr(binding.statement, "value", None) in calls:
            return binding
    return None


def library_of(facts: Facts) -> str:
    """The library whose Accelerator the script makes."""
    return next(facts.external[call].partition(".")[0] for call in accelerator_calls(facts))
