"""What `accelerator.prepare` returns where a script is read as it stands, and which calls make a value global there."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accel_migrate.facts.catalog import DISTRIBUTED_SAMPLERS
from accel_migrate.facts.values import UNKNOWN, Box, Made, Prepared, Role, Value, Values

if TYPE_CHECKING:
    from accel_migrate.facts.calls import Arguments
    from accel_migrate.facts.machine import Machine

GATHERING = {
    "gather",
    "gather_for_metrics",
    "gather_with_grad",
    "reduce",
    "pad_across_processes",
    "global_mean",
    "global_sum",
    "global_len",
}
"""Methods of accelerators, and functions beside them, whose results are the same on all processes."""
_LIBRARIES = ("accelerate.", "accel_runtime.")
_OTHERS = {"gather_object", "broadcast", "broadcast_object_list"}
_BY_NAME = {
    "optim": Role.OPTIMIZER,
    "opt": Role.OPTIMIZER,
    "sched": Role.SCHEDULER,
    "loader": Role.LOADER,
    "dl": Role.LOADER,
}
"""What an object of unknown making is, by a part of its name."""


def is_gathering(name: str) -> bool:
    """Whether the library's function `name` returns what is the same on all processes."""
    return name.startswith(_LIBRARIES) and name.rpartition(".")[2] in GATHERING | _OTHERS


def gathers_in(function: ast.AST) -> bool:
    """Whether what `function` computes is of the whole batch: it gathers the rows itself."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return any((f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else "") in GATHERING for f in calls)


def prepared(machine: Machine, method: str, node: ast.Call, args: Arguments) -> Values:
    """What `prepare(a, b)` or `unwrap_model(a)` returns: what it was given, with or without a mark that says so."""
    if method == "unwrap_model":
        return frozenset(v for values in args.positional[:1] for v in values if not isinstance(v, Prepared))
    every = [_marked(machine, node, index, values, args.nodes[index]) for index, values in enumerate(args.positional)]
    if len(every) == 1:
        return every[0]
    box = Box(node)
    for index, values in enumerate(every):
        machine.write_heap(box, index, values)
    return frozenset({box})


def is_sharded(machine: Machine, loader: Value, beside: Iterable[Value]) -> bool:
    """Whether `loader`, one of the values `beside`, hands out another part of the samples on each process."""
    if any(isinstance(v, Prepared) for v in beside):
        return True
    samplers = machine.read_heap(loader, "argument sampler")
    return any(isinstance(v, Made) and v.detail in DISTRIBUTED_SAMPLERS for v in samplers)


def _marked(machine: Machine, call: ast.Call, index: int, values: Values, node: ast.expr) -> Values:
    known = any(machine.facts.role(v) not in {None, Role.OBJECT} for v in values)
    guess = None if known else _role_by_name(node)
    return values | {Prepared(call, index)} | ({Made(guess, node, "prepared")} if guess is not None else UNKNOWN)


def _role_by_name(node: ast.expr) -> Role | None:
    """The role of what is prepared and not known otherwise: what is no optimizer, scheduler or loader is a model."""
    name = (node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else "").lower()
    words = name.split("_")
    for part, role in _BY_NAME.items():
        if part in words or (len(part) > 3 and part in name):
            return role
    return Role.MODEL if name else None
