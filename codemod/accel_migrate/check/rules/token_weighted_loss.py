"""A loss that is a sum over tokens divided by this process's number of tokens."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Spread, locals_of
from accel_migrate.quoting import quote

ID = "token-weighted-loss"
TITLE = "The loss is divided by one process's number of tokens"
SEVERITY = Severity.WARNING


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("backward"):
        if not call.args or any(k.arg in {"weight", "reduction"} for k in call.keywords):
            continue
        for node in program.flow.origins(call.args[0], stop=program.is_gathered):
            if (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, ast.Div)
                and _counts_tokens(program, node.right)
                and program.training_loop(node) is not None
            ):
                yield Alarm(
                    node,
                    f"processes and micro-batches with few tokens weigh as much as those with many: the mean of `{quote(node)}` over them is not the mean over all tokens",
                    _advice(program, node),
                )
                return


def _counts_tokens(program: Program, node: ast.expr) -> bool:
    """Whether `node` is a sum over this process's rows, of a mask for example."""
    return any(v.spread is Spread.SUM and not v.grad for v in locals_of(program.facts.of(node)))


def _advice(program: Program, node: ast.BinOp) -> str:
    if program.library == "accel_runtime":
        return f"accelerator.backward(loss, weight={quote(node.right)})"
    return "divide the sum by the number of tokens of all processes (accelerator.reduce), and multiply by num_processes, since gradients are averaged"
