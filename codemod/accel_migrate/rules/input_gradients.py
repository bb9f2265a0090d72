"""Gradients with respect to the rows of a batch: adversarial examples, saliency, penalties on gradients.

`accelerator.backward` scales each process's loss so that the *average* over processes is the gradient of the global batch.
The gradient of a row lies on one process only, so it comes out `num_processes` times as large (for means, weighted means and
sums alike). `torch.autograd.grad` scales nothing: there the mean itself gets this process's share.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, Severity
from accel_migrate.facts.scalefree import is_scale_free
from accel_migrate.facts.values import Spread, spread_of
from accel_migrate.rules.backward import out_of_reach

ID = "input-gradients"
TITLE = "Give gradients of rows the scale of the global batch"
WHY = "the gradient of a row is not averaged over processes"

SAME_SIZE = {"data", "detach", "clone", "cpu"}
"""What stands between `.grad` and its use without changing it."""
HOOKS = {"register_hook", "register_full_backward_hook", "register_backward_hook"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for _, node in context.facts.nodes(ast.Attribute):
        assert isinstance(node, ast.Attribute)
        if node.attr == "grad" and isinstance(node.ctx, ast.Load) and _is_rows(context, node.value) and not is_scale_free(context.facts, node):
            yield from _divide(context, _with_copies(context, node))
    for call in context.calls_of("torch.autograd.grad"):
        yield from _share(context, call)
    yield from _hooks(context)


def _is_rows(context: Context, node: ast.expr) -> bool:
    return spread_of(context.facts.of(node)) is Spread.SHARD


def _with_copies(context: Context, node: ast.expr) -> ast.expr:
    """`x.grad.detach()` of `x.grad`."""
    parent = context.facts.parents[node]
    if not isinstance(parent, ast.Attribute) or parent.attr not in SAME_SIZE:
        return node
    called = context.facts.parents[parent]
    if isinstance(called, ast.Call) and called.func is parent:
        return _with_copies(context, called)
    return _with_copies(context, parent) if parent.attr == "data" else node


def _divide(context: Context, node: ast.expr) -> Iterator[Edit | Finding]:
    try:
        text = context.say("{x} / @accelerator@.num_processes", node)
    except Unreachable:
        yield out_of_reach(context, node)
        return
    yield context.replace(ID, node, text, WHY, x=Inner(node))


def _share(context: Context, call: ast.Call) -> Iterator[Edit | Finding]:
    """`torch.autograd.grad(loss, x)`, where `loss` is a mean over the rows of `x`."""
    loss, rows = _argument(call, 0, "outputs"), _argument(call, 1, "inputs")
    if loss is None or rows is None or not _is_rows(context, rows) or is_scale_free(context.facts, call):
        return
    spread = spread_of(context.facts.of(loss))
    if spread in {Spread.RATIO, Spread.MIXED} or (spread is Spread.MEAN and not isinstance(rows, ast.Name | ast.Attribute)):
        yield _unknown_share(context, call)
    elif spread is Spread.MEAN:
        whole = context.dialect.global_len if context.dialect.exact else context.dialect.global_len.replace("{x}", "len({x})")
        template = f"{{y}} * (len({{x}}) / {whole})"
        try:
            yield context.replace(ID, loss, context.say(template, call), WHY, y=Inner(loss), x=rows)
        except Unreachable:
            yield out_of_reach(context, call)


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """An argument, or the only element of the list in its place."""
    node = next((k.value for k in call.keywords if k.arg == name), call.args[position] if len(call.args) > position else None)
    return node.elts[0] if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 else node


def _hooks(context: Context) -> Iterator[Finding]:
    if not any(b.with_loader for b in context.facts.backwards.values()):
        return
    for _, node in context.facts.nodes(ast.Call):
        assert isinstance(node, ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in HOOKS and (node.func.attr != "register_hook" or context.is_batch(node.func.value)):
            yield Finding(
                source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
                message="this hook sees gradients of this process's rows, num_processes times as large as on one process",
                advice="divide what it reads by accelerator.num_processes, or multiply what it compares with",
            )  # fmt: skip


def _unknown_share(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule=ID, severity=Severity.WARNING,
        message="these gradients of rows are those of this process's loss: on N processes about N times as large as on one",
        advice="scale the loss first: loss * n / accelerator.global_sum(n), with n what the loss was divided by on this process",
    )  # fmt: skip
