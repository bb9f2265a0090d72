"""Numbers that are shown, compared or kept are those of the global batch.

Evaluation loops gather outputs and targets right after the forward pass, so that every line below stays. Elsewhere the
value is reduced where it leaves the tensors: a mean by `global_mean`, a sum by `global_sum`, a number of rows by
`global_len`, rows by `gather_for_metrics`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, InsertAfter, Severity
from accel_migrate.facts import graphs
from accel_migrate.facts.counters import is_drawn
from accel_migrate.facts.facts import Conversion, Gather
from accel_migrate.facts.gathered import later
from accel_migrate.facts.shaping import measured
from accel_migrate.facts.texts import is_text
from accel_migrate.facts.values import Local, Spread, spread_of
from accel_migrate.quoting import quote
from accel_migrate.rules._behind_loop import rows_behind_loop
from accel_migrate.rules._figures import Figure, Figures
from accel_migrate.rules._gathering import gather_at
from accel_migrate.rules._meetings import kept_for_training, meeting
from accel_migrate.rules._terms import global_figure
from accel_migrate.rules.backward import out_of_reach, unknown_denominator, weight_template
from accel_migrate.side_effects import is_said, runs_of, writing_statements

ID = "gather-metrics"
TITLE = "Show, compare and keep the numbers of the global batch"
WHY = "each process sees only its own rows of the batch"
FINDINGS = {
    "local-figure": "Find numbers that are computed from one process's rows only",
    "kept-rows": "Find rows that are kept, sorted or drawn again on each process, and then meet other rows of a batch",
}
OUTLIVING = {"state", "statistic"}
"""Conversions that models need, too: what outlives the batch there, or meets each of its rows."""
TRANSPOSITIONS = {"T", "mT", "t", "transpose", "permute", "swapaxes"}
JOINS = {"cat", "concat", "stack", "concatenate", "vstack", "hstack"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    guarded = list(runs_of(context.facts, writing_statements(context.facts)))
    taken: dict[tuple[int, str], str] = {}
    single: list[Edit | Finding] = []
    figures = Figures(context, ID, WHY)
    for conversion in context.facts.conversions.values():
        if _is_within_rows(context, conversion):
            continue
        run = next((r for r in guarded if any(context.facts.inside(conversion.value, s) for s in r)), None)
        single.extend(_convert(context, conversion, run, taken, figures))
    single.extend(figures.edits())
    yield from (item for item in single if isinstance(item, InsertAfter))
    for gather in (g for g in context.facts.gathers.values() if g.cut and g.backward is None):
        yield from gather_at(context, gather, ID, WHY)
        yield from kept_for_training(context, gather)
    yield from (item for item in single if not isinstance(item, InsertAfter))


def _is_within_rows(context: Context, conversion: Conversion) -> bool:
    """Whether rows are a part of other rows that are gathered: `bank[y]` is looked up by each process for its own `y`."""
    if spread_of(conversion.values) is not Spread.SHARD:
        return False
    around = (context.facts.conversions.get(a) for a in context.facts.ancestors(conversion.value) if isinstance(a, ast.expr))
    return any(outer is not None and spread_of(outer.values) is Spread.SHARD for outer in around)


# -- single values -----------------------------------------------------------------------------------
def _convert(
    context: Context, conversion: Conversion, guarded: list[ast.stmt] | None, taken: dict[tuple[int, str], str], figures: Figures
) -> Iterator[Edit | Finding]:
    if context.in_model(conversion.value) and _is_logged(context, conversion):
        conversion = replace(conversion, how="state")
    if context.in_model(conversion.value) and conversion.how not in {"keep", *OUTLIVING} and not _in_trainer(context, conversion.value):
        if getattr(context.facts.function(conversion.value), "name", "") != "forward":
            if conversion.how != "test":
                yield _no_formula(context, conversion)
        elif is_said(context.facts, conversion.value):
            yield replace(_no_formula(context, conversion), severity=Severity.INFO)
        return
    spread = spread_of(conversion.values)
    if spread not in {Spread.COUNT, Spread.RATE, Spread.ROW} and context.row_loops.around(conversion.value) is not None:
        yield _in_row_loop(context, conversion)
        return
    operand = _operand(context, conversion) if spread is Spread.MIXED else None
    if operand is not None and guarded is not None and context.facts.function(operand) is not context.facts.function(conversion.value):
        operand = None  # what stands in another function cannot be made global ahead of the guard
    if operand is not None:
        if (id(operand), "") not in taken:
            taken[id(operand), ""] = ""
            how = conversion.how if conversion.how in OUTLIVING else "operand"
            yield from _convert(context, replace(conversion, value=operand, values=context.facts.of(operand), how=how), guarded, taken, figures)
        return
    if spread is Spread.SHARD:
        cut = _sliced(context, conversion)
        if cut is not None and not context.facts.inside(cut, conversion.value):
            yield _no_formula(context, conversion)  # sliced before: these are not the first rows of the batch
            return
        whole = _rows_first(context, _unsliced(context, cut or conversion.value))
        if whole is None or any(isinstance(n, ast.Subscript) and _picks_row(context, n) for n in ast.walk(whole)):
            yield _no_formula(context, conversion)  # rows in another dimension, or something made of one row
            return
        if conversion.how == "item" and whole is conversion.value:
            yield _no_formula(context, conversion)  # one number out of rows: which one is not for a gather to say
            return
        stays, done = meeting(context, conversion, ID, WHY, taken)
        yield from done
        if stays:
            return
        conversion = replace(conversion, value=whole)
    if spread in {Spread.MEAN, Spread.SUM} and any(v.sliced is not None for n in ast.walk(conversion.value) if isinstance(n, ast.Subscript) for v in context.locals(n)):
        yield _no_formula(context, conversion)  # of some rows of each process, which are not those of the batch
        return
    if spread in {Spread.COUNT, Spread.RATE}:
        yield from _counts(context, conversion, guarded, figures)
        return
    attached = _attached(conversion.value) if spread is not Spread.SHARD else conversion.value
    parts: dict[str, ast.AST] = {"x": attached}
    template = _template(context, conversion, spread)
    if template is None:
        yield from _by_terms(context, conversion, guarded)
        return
    if spread is Spread.RATIO:
        weight = weight_template(context, conversion.values, conversion.value)
        if weight is None:
            yield unknown_denominator(context, conversion.value, "this figure")
        elif context.dialect.exact:
            template = template.replace("{x}", f"{{x}}, weight={weight[0]}")
            parts |= weight[1]
            gather = _gathered_before(context, conversion.value, weight[0])
            if gather is not None:
                yield from _ahead_of_gather(context, gather, conversion.value, template, taken)
                return
    if spread is Spread.MEAN and context.dialect.exact:
        rows = rows_behind_loop(context, conversion.value)
        template = template if rows is None else template.replace("{x}", f"{{x}}, weight=len({rows})")
    if spread is Spread.SHARD and conversion.how in {"array", "collect"} and _stays_on_host(context, conversion):
        template += ".cpu()"
    try:
        template, imports = context.say_or_import(template, conversion.value, ID)
    except Unreachable:
        yield _no_formula(context, conversion) if context.in_model(conversion.value) else out_of_reach(context, conversion.value)
        return
    yield from imports
    sharable = spread is not Spread.SHARD and isinstance(conversion.value, ast.Name)
    figures.add(Figure(conversion.value, template, parts, guarded, sharable))


def _in_trainer(context: Context, node: ast.AST) -> bool:
    """Whether `node` stands in a method that runs a backward pass itself: a model that trains itself shows what a script shows."""
    function = context.facts.function(node)
    return any(context.facts.function(call) is function for call in context.facts.backwards)


def _is_logged(context: Context, conversion: Conversion) -> bool:
    """Whether a number goes into an attribute of the model, or a variable that its rows meet again.

    `self.norms.append(x.norm().item())`, `self.last = entropy.item()`, `scale = x.abs().max().item()`.
    """
    node: ast.AST = conversion.value
    parent = context.facts.parents[node]
    while isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and (parent.func is node or not isinstance(parent.func, ast.Attribute))):
        node, parent = parent, context.facts.parents[parent]
    if conversion.how == "item" and isinstance(parent, ast.Assign | ast.AugAssign):
        return all(isinstance(target, ast.Attribute | ast.Name) for target in (parent.targets if isinstance(parent, ast.Assign) else [parent.target]))
    kept = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr == "append"
    return kept and isinstance(parent.func.value, ast.Attribute) and not any(v.grad and conversion.how != "item" for v in context.locals(conversion.value))  # type: ignore[attr-defined]


def _by_terms(context: Context, conversion: Conversion, guarded: list[ast.stmt] | None) -> Iterator[Edit | Finding]:
    """A loss that mixes reductions is shown as the sum of its terms, each made global by itself."""
    try:
        text = global_figure(context, conversion.value, weight_template) if guarded is None else None
    except Unreachable:
        text = None
    if text is None:
        yield _no_formula(context, conversion)
    else:
        yield context.replace(ID, conversion.value, text, WHY)


def _stays_on_host(context: Context, conversion: Conversion) -> bool:
    """Whether the script never moved these rows to the device; the prepared loader did."""
    on_host = all(v.host for v in context.locals(conversion.value)) and context.is_batch(conversion.value)
    return context.home.device is not None and on_host and not is_text(context.facts, conversion.value)


def _operand(context: Context, conversion: Conversion) -> ast.expr | None:
    """`loss` of `loss.sqrt()`, `x` of `x.std()`, where no gradient takes the same way."""
    operands = {v.reduced for v in conversion.values if isinstance(v, Local) and v.reduced is not None}
    operand = operands.pop() if len(operands) == 1 else None
    if operand is None or (any(v.grad for v in context.locals(operand)) and not context.facts.inside(operand, conversion.value)):
        return None
    return operand


def _sliced(context: Context, conversion: Conversion) -> ast.expr | None:
    """The rows of which the value holds those between fixed bounds: `x` of `x.data[:8].cpu()`."""
    return next((v.sliced for v in conversion.values if isinstance(v, Local) and v.spread is Spread.SHARD and v.sliced is not None), None)


def _unsliced(context: Context, value: ast.expr) -> ast.expr:
    """`x` of `x[:8]` and `x[0]`: which rows are the first is settled once they are gathered."""
    while isinstance(value, ast.Subscript) and (_is_sliced(value.slice) or _picks_row(context, value)):
        value = value.value
    return value


def _rows_first(context: Context, value: ast.expr) -> ast.expr | None:
    """`x` of `x.T` and `x.t()`: rows are gathered along the first dimension; None where they stand in another one."""
    while any(v.spread is Spread.SHARD and v.axis != 0 for v in context.locals(value)):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in TRANSPOSITIONS:
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in TRANSPOSITIONS:
            value = value.value
        else:
            return None
    return value


def _is_sliced(index: ast.expr) -> bool:
    """`a:b` and `:, a:b`."""
    return all(isinstance(entry, ast.Slice) for entry in (index.elts if isinstance(index, ast.Tuple) else [index]))


def _picks_row(context: Context, value: ast.Subscript) -> bool:
    """Whether a constant index, or one that is drawn, picks a row of a tensor, and not a part of a batch or of a model's output."""
    first = value.slice.elts[0] if isinstance(value.slice, ast.Tuple) and value.slice.elts else value.slice
    constant = (isinstance(first, ast.Constant) and isinstance(first.value, int)) or is_drawn(context.facts, first)
    rows = context.locals(value.value)
    return constant and bool(rows) and not any(v.batch or v.output for v in rows)


def _attached(value: ast.expr) -> ast.expr:
    """`loss` of `loss.detach().clone()` and `loss.data`: its graph tells from which batch it was computed, and the reduction detaches it."""
    if isinstance(value, ast.Attribute) and value.attr == "data":
        return _attached(value.value)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in {"detach", "clone"}:
        return _attached(value.func.value)
    return value


def _gathered_before(context: Context, value: ast.expr, weight: str) -> Gather | None:
    """The gather above `value` after which the variables of `weight` hold the whole batch."""
    names = {n.id for n in ast.walk(ast.parse(weight.replace("{{", "{").replace("}}", "}"), mode="eval")) if isinstance(n, ast.Name)}
    for gather in context.facts.gathers.values():
        if names & set(gather.names) and any(node is value for node in later(context.facts, gather)):
            return gather
    return None


def _ahead_of_gather(context: Context, gather: Gather, value: ast.expr, template: str, taken: dict[tuple[int, str], str]) -> Iterator[Edit | Finding]:
    """The figure is reduced while its denominator is still that of this process's rows."""
    if not isinstance(value, ast.Name) or gather.hoisted:
        yield unknown_denominator(context, value, "this figure")
        return
    key = (id(gather.statement), value.id)
    if key not in taken:
        taken[key] = value.id
        text = context.say(template, gather.statement).replace("{x}", value.id)
        yield InsertAfter(source=context.source(value), rule=ID, why=WHY, node=gather.statement, template=f"{value.id} = {text}")


def _template(context: Context, conversion: Conversion, spread: Spread | None) -> str | None:
    if spread in {Spread.MEAN, Spread.RATIO}:
        return context.dialect.global_mean
    if spread is Spread.SUM:
        return context.dialect.global_sum
    if spread is Spread.SHARD:
        return "@accelerator@.gather_for_metrics({x})"
    return None


def _counts(context: Context, conversion: Conversion, guarded: list[ast.stmt] | None, figures: Figures) -> Iterator[Edit | Finding]:
    """Inside the expression, each number of local rows becomes that of the global batch."""
    ask = guarded is not None and context.dialect.exact and _own_collation(context)
    for node in _count_leaves(context, conversion.value):
        if any(v.spread is Spread.RATE for v in context.locals(node)):
            yield _no_formula(context, replace(conversion, value=node))
            continue
        rows = measured(node)
        template, parts = (context.dialect.global_len, {"x": rows if rows is not None and context.dialect.exact else node})
        try:
            text, imports = context.say_or_import(template, node, ID)
            if ask:
                figures.add(Figure(node, text, parts, guarded, False))
            else:
                yield context.replace(ID, node, text, WHY, **parts)
            yield from imports
        except Unreachable:
            yield out_of_reach(context, node)


def _own_collation(context: Context) -> bool:
    """Whether a loader may hand out other numbers of rows than samples: then all processes have to ask for their sum."""
    external = context.facts.external
    return any(name in graphs.LOADERS or any(keyword.arg == "collate_fn" for keyword in call.keywords) for call, name in external.items())


def _count_leaves(context: Context, node: ast.expr) -> Iterator[ast.expr]:
    if not any(v.spread in {Spread.COUNT, Spread.RATE} for v in context.locals(node)):
        return
    if isinstance(node, ast.BinOp):
        yield from _count_leaves(context, node.left)
        yield from _count_leaves(context, node.right)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"float", "int"} and len(node.args) == 1:
        yield from _count_leaves(context, node.args[0])
    else:
        yield node


def _no_formula(context: Context, conversion: Conversion) -> Finding:
    node = conversion.value
    return Finding(
        source=context.source(node), node=node, rule="local-figure", severity=Severity.WARNING,
        message=f"`{quote(node)}` is computed from this process's rows only",
        advice="gather what it is computed from first: accelerator.gather_for_metrics(...)",
    )  # fmt: skip


def _in_row_loop(context: Context, conversion: Conversion) -> Finding:
    node = conversion.value
    return Finding(
        source=context.source(node), node=node, rule="row-loops", severity=Severity.ERROR,
        message=f"`{quote(node)}` is a figure of this process's rows in a loop over them: the processes go through it different numbers of times and cannot meet there",
        advice="gather before the loop: x = accelerator.gather_for_metrics(x), under another name if the step goes on with x; or keep one figure for each row in a tensor and gather that",
    )  # fmt: skip
