"""Gradients of parameters that are taken by `torch.autograd.grad` stay local: a finding.

Only `backward` averages gradients over processes. What a script then does with the tensors that `grad` returns, it does with
those of this process's rows, and the replicas part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Finding, Severity
from accel_migrate.facts.values import Box, Made, Role

ID = "own-gradients"
TITLE = "Find gradients of parameters that bypass the backward pass"
WHY = "only backward averages gradients over processes"


def apply(context: Context) -> Iterator[Finding]:
    if context.distributed:
        return
    for call in context.calls_of("torch.autograd.grad"):
        inputs = [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "inputs")]
        if any(_holds_parameters(context, node) for node in inputs):
            yield Finding(
                source=context.source(call), node=call, rule=ID, severity=Severity.ERROR,
                message="these gradients are those of this process's rows only: updates made from them differ between processes",
                advice="average each first, gradient = accelerator.reduce(gradient, reduction=\"mean\"), or use accelerator.backward and the parameters' .grad",
            )  # fmt: skip


def _holds_parameters(context: Context, node: ast.expr) -> bool:
    values = context.facts.of(node)
    if any(isinstance(v, Made) and v.role is Role.PARAMETERS for v in values):
        return True
    return any(isinstance(v, Box) for v in values) and any(
        isinstance(v, Made) and v.role is Role.PARAMETERS for inner in ast.walk(node) if isinstance(inner, ast.expr) for v in context.facts.of(inner)
    )
