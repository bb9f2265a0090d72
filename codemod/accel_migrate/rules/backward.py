"""`loss.backward()` becomes `accelerator.backward(loss)`.

The accelerator weighs each process's mean by its share of the global batch. A summed loss says so, and a loss whose
denominator is not the number of rows (`ignore_index`, class weights) passes its own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.elsewhere import NotThere, written_at
from accel_migrate.facts.accumulation import accumulation_window
from accel_migrate.facts.facts import Backward
from accel_migrate.facts.mixing import origin_of_mixture
from accel_migrate.facts.values import Local, Spread, spread_of
from accel_migrate.quoting import quote
from accel_migrate.rules._terms import backward_lines

ID = "backward"
TITLE = "Run the backward pass through the accelerator"
WHY = "gradients are averaged over processes, each weighted by its share of the batch"
FINDINGS = {
    "mixed-reduction": "Find losses that mix sums and means over the batch",
    "out-of-reach": "Report code that the accelerator cannot be passed to",
    "uncalled-training": "Report training functions that nothing in the program calls",
    "unknown-reduction": "Report losses of which it is not known whether they average over the rows",
    "weighted-mean": "Find means over something else than the rows of a batch",
}


def apply(context: Context) -> Iterator[Edit | Finding]:
    for backward in context.facts.backwards.values():
        if backward.with_loader:
            yield from _rewrite(context, backward)


def _rewrite(context: Context, backward: Backward) -> Iterator[Edit | Finding]:
    call, spread = backward.call, spread_of(backward.values)
    if context.distributed:
        spread = None  # its own DDP averages what the processes have, whatever they divide by
    parts: dict[str, ast.AST] = {"x": backward.loss}
    template = "@accelerator@.backward({x})"
    if any(gather.backward is call for gather in context.facts.gathers.values()):
        if spread is not None:
            yield _mixed(context, call, backward.loss)  # a part of it is not of the whole batch
    elif spread is Spread.SUM or (spread is Spread.SHARD and call.args):  # with a gradient given for each row, rows add up
        template = context.dialect.backward_sum
    elif spread is Spread.RATIO:
        weight = weight_template(context, backward.values, call)
        if weight is None:
            yield unknown_denominator(context, call, "the gradient")
        else:
            template = context.dialect.backward_weighted.replace("{w}", weight[0])
            parts |= weight[1] if "{w}" in context.dialect.backward_weighted else {}
    elif spread in {None, Spread.SHARD, Spread.RATE, Spread.COUNT} and not context.distributed and context.row_loops.around(call) is None:
        yield _unknown(context, call, backward.loss)
    elif spread is Spread.MIXED:
        yield _mixed(context, call, backward.loss)
    try:
        template = context.say(template, call)
    except Unreachable:
        yield _uncalled(context, call) if context.is_unused(call) else out_of_reach(context, call)
        return
    window = accumulation_window(context.facts, backward)
    if window is not None and window.condition is not None and context.dialect.exact and not context.distributed:
        template = f"{template[:-1]}, sync={{sync}})"
        parts["sync"] = window.condition
    extra = [f"{k.arg}={{k{i}}}" if k.arg else f"**{{k{i}}}" for i, k in enumerate(call.keywords)]
    extra += ["gradient={g}"] if call.args else []
    parts |= {f"k{i}": k.value for i, k in enumerate(call.keywords)} | ({"g": call.args[0]} if call.args else {})
    if extra:
        template = f"{template[:-1]}, {', '.join(extra)})"
    yield context.replace(ID, call, template, WHY, **parts)


def weight_template(context: Context, values: frozenset, at: ast.AST) -> tuple[str, dict[str, ast.AST]] | None:
    """The local denominator of a weighted mean as an expression at `at`; None where it cannot be written down there."""
    found = next((v for v in values if isinstance(v, Local) and v.weight), None)
    if found is None:
        return None
    try:
        texts = {key: code_of(context, written_at(context.facts, part, at)) for key, part in found.parts}  # type: ignore[arg-type]
    except NotThere:
        return None
    template = found.weight
    for key, text in texts.items():
        template = template.replace(f"{{{key}}}", text)
    return template, {}


def code_of(context: Context, node: ast.expr) -> str:
    """`node` as the text of a template, in the script's own words where it is an expression of the script."""
    source = ast.get_source_segment(context.source(node).text, node) if node in context.facts.parents else None
    text = source
    if text is None or "\n" in text:
        text = ast.unparse(ast.fix_missing_locations(node))
        text = text if '"' in text else text.replace("'", '"')
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.Constant | ast.UnaryOp)
    return (text if simple else f"({text})").replace("{", "{{").replace("}", "}}")


def unknown_denominator(context: Context, node: ast.AST, what: str) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule="weighted-mean", severity=Severity.WARNING,
        message=f"this loss is a mean over something else than rows; with equal weights per process {what} differs",
        advice=context.dialect.weighted_advice,
    )  # fmt: skip


def _unknown(context: Context, node: ast.AST, loss: ast.expr) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule="unknown-reduction", severity=Severity.WARNING,
        message=f"what makes `{quote(loss, 40)}` is out of sight: it was taken for a mean over the rows of the batch",
        advice='if it is one, nothing is left to do; for a sum pass reduction="sum", for a mean over n other things weight=n',
    )  # fmt: skip


def _origin(context: Context, loss: ast.expr) -> str:
    """The expression that mixes them, where it is not the loss as it stands."""
    origin = origin_of_mixture(context.facts, loss)
    return "" if isinstance(origin, ast.Name) else f" by `{quote(origin)}` ({context.source(origin).where(origin.lineno)})"


def _mixed(context: Context, node: ast.AST, loss: ast.expr) -> Finding:
    lines = backward_lines(context, loss, weight_template)
    each = "call accelerator.backward on each term with its own reduction= or weight=, all but the last with sync=False and retain_graph=True"
    return Finding(
        source=context.source(node), node=node, rule="mixed-reduction", severity=Severity.WARNING,
        message=f"this loss mixes reductions (sums with means, means over different denominators, a root of a mean){_origin(context, loss)}: "
        "no single weight makes it global",
        advice=each if lines is None else f"write {lines}",
    )  # fmt: skip


def _uncalled(context: Context, call: ast.Call) -> Finding:
    return Finding(
        source=context.source(call), node=call, rule="uncalled-training",
        message="nothing in this program calls this function, so its training was left as it is: on N processes each trains on its own",
        advice="if something calls it by a way that cannot be followed, give it an `accelerator` argument and use `accelerator.backward`",
    )  # fmt: skip


def _obstacle(context: Context, node: ast.AST) -> str:
    try:
        context.accelerator(node)
    except Unreachable as problem:
        return str(problem)
    return "the callers of this function are not all known"


def out_of_reach(context: Context, node: ast.AST) -> Finding:
    return Finding(
        source=context.source(node), node=node, rule="out-of-reach", severity=Severity.ERROR,
        message=f"the accelerator cannot be passed to here: {_obstacle(context, node)}",
        advice="give this function (or its class) an `accelerator` argument and use it here",
    )  # fmt: skip
