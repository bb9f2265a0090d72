"""Hugging Face Accelerate wraps loaders, optimizers and schedulers too: what the wrappers lack is read from inside.

A prepared loader has no `batch_size`; a prepared scheduler passes on only a few methods. That holds on one process too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner
from accel_migrate.facts.values import Role
from accel_migrate.order import Before
from accel_migrate.plan import Plan
from accel_migrate.rules.prepare import prepared_sites

ID = "accelerate-objects"
TITLE = "Reach through Accelerate's wrappers of loaders, optimizers and schedulers"
WHY = "the prepared object lacks this attribute"

PASSED_ON = {
    Role.OPTIMIZER: {"step", "zero_grad", "state", "param_groups", "defaults", "add_param_group", "state_dict", "load_state_dict", "train", "eval"},
    Role.SCHEDULER: {"step", "get_last_lr", "get_lr", "print_lr", "state_dict", "load_state_dict"},
}
INSIDE = {Role.OPTIMIZER: "{x}.optimizer", Role.SCHEDULER: "{x}.scheduler"}
LOADER_ATTRIBUTES = {"batch_size": "{x}.total_batch_size", "sampler": "{x}.get_sampler()"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    """Everything waits until it is known where the objects are prepared."""
    return iter(())


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    if not context.dialect.wraps:
        return
    sites = prepared_sites(context)
    order = Before.preparation(context.facts, plan)
    for _, node in context.facts.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        roles = {role for v in context.facts.of(node.value) if (getattr(v, "site", None), role := context.facts.role(v)) in sites}
        if len(roles) != 1 or plan.is_removed(node) or order.is_before(node):
            continue
        role = roles.pop()
        if role in PASSED_ON and node.attr not in PASSED_ON[role]:
            yield context.replace(ID, node.value, INSIDE[role], WHY, x=Inner(node.value))
        elif role is Role.LOADER and node.attr in LOADER_ATTRIBUTES and isinstance(node.ctx, ast.Load):
            yield context.replace(ID, node, LOADER_ATTRIBUTES[node.attr], WHY, x=node.value)
