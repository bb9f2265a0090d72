"""How arithmetic and tensor operations change the spread of a value. Pure functions."""

from __future__ import annotations

import ast

from accel_migrate.facts import axes, catalog, packed
from accel_migrate.facts.values import UNKNOWN, Literal, Local, Spread, Values, altered, locals_of, spread_of

S = Spread
SEVERAL = ast.Constant(...)
"""Stands for rows that were sliced where they are not the only ones a value is made of."""
ARITHMETIC: dict[str, ast.operator] = {"mul": ast.Mult(), "div": ast.Div(), "add": ast.Add(), "sub": ast.Sub()}


def local(spread: Spread, *inputs: Values, **changes: object) -> Values:
    """A value of `spread` that was computed from `inputs` (it has a gradient if one of them has)."""
    found = [v for values in inputs for v in locals_of(values)]
    taken = frozenset().union(*(v.taken for v in found))
    mask = next((v.mask for v in found if v.mask is not None), None)
    if spread is S.MEAN and mask is not None:
        template, counted = packed.denominator(mask) or ("{mask}.sum()", mask)
        changes |= {"weight": template, "parts": (("mask", counted),)}
        spread = S.RATIO
    sliced = _layout(found)["sliced"]
    if spread in {S.MEAN, S.SUM} and sliced is not None and not any(v.grad for v in found):
        spread = S.MIXED
        changes |= {"reduced": None if sliced is SEVERAL else sliced}
    if spread is S.MIXED:
        changes = {"reduced": _same_rows(found)} | changes
    if spread is S.SHARD:
        changes = {"mask": mask, "joined": any(v.joined for v in found), **_layout(found)} | changes
    whole = bool(found) and all(v.whole for v in found)
    return frozenset({Local(spread, grad=any(v.grad for v in found), taken=taken, whole=whole, **changes)})  # type: ignore[arg-type]


def _same_rows(found: list[Local]) -> ast.expr | None:
    """The rows from whose reduction all of `found` were computed."""
    figures = {v.reduced for v in found if v.spread not in {S.COUNT, S.RATE}}
    return figures.pop() if len(figures) == 1 else None


def _layout(found: list[Local]) -> dict[str, object]:
    """Where what is computed element by element from `found` has its rows."""
    rows = [v for v in found if v.spread is S.SHARD]
    places = {v.axis for v in rows}
    ranks = {v.rank for v in rows}
    kinds = [v.blocks for v in rows]
    blocks = next((kind for kind in ("ragged", "equal") if kind in kinds), "")
    slices = {v.sliced for v in rows}
    sliced = slices.pop() if len(slices) == 1 else SEVERAL if slices else None
    return {"blocks": blocks, "sliced": sliced, "axis": places.pop() if len(places) == 1 else 0, "rank": ranks.pop() if len(ranks) == 1 else None, "per_row": any(v.per_row for v in rows)}


def spreads(values: Values) -> set[Spread]:
    return {v.spread for v in locals_of(values)}


def combine(op: ast.operator, left: Values, right: Values, right_node: ast.expr) -> Values:
    """The spread of `left op right`."""
    a, b = spreads(left), spreads(right)
    if not a and not b:
        return UNKNOWN
    if isinstance(op, ast.MatMult):
        return product(left, right)
    if S.SHARD in a | b:
        return local(S.SHARD, left, right, truth=isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and are_true_or_false(left))
    if S.ROW in a | b:
        return local(S.ROW, left, right)
    if len(a) > 1 or len(b) > 1:
        return local(S.MIXED, left, right)
    first, second = next(iter(a), None), next(iter(b), None)
    numbers = {S.COUNT, S.RATE, None}
    if first in numbers and second in numbers:
        return _numbers(op, first, second, left, right)
    if isinstance(op, ast.Add | ast.Sub):
        return _sum(first, second, left, right)
    if isinstance(op, ast.Mult):
        return _product(first, second, left, right)
    if isinstance(op, ast.Div | ast.FloorDiv):
        return _quotient(first, second, left, right, right_node)
    return local(S.MIXED, left, right)


def _numbers(op: ast.operator, first: Spread | None, second: Spread | None, left: Values, right: Values) -> Values:
    """Arithmetic of numbers of rows: what is left in it of a local number is made global leaf by leaf."""
    if isinstance(op, ast.Div | ast.FloorDiv):
        if first is second:
            return UNKNOWN
        return local(S.RATE if second is S.COUNT else S.COUNT, left, right)
    if isinstance(op, ast.Mult) and {first, second} == {S.COUNT, S.RATE}:
        return UNKNOWN
    return local(S.RATE if S.RATE in {first, second} else S.COUNT, left, right)


def _sum(first: Spread | None, second: Spread | None, left: Values, right: Values) -> Values:
    if first == second or second is None or first is None:
        kind = first or second
        if kind is S.RATIO and first == second:
            kind = S.MIXED
        assert kind is not None
        return _same(kind, left, right)
    if {first, second} == {S.SUM, S.COUNT}:
        return local(S.SUM, left, right)
    if {first, second} == {S.MEAN, S.RATIO}:
        return local(S.MIXED, left, right)
    return local(S.MIXED, left, right)


def _product(first: Spread | None, second: Spread | None, left: Values, right: Values) -> Values:
    if first is None or second is None:
        return _same(first or second, left, right)  # type: ignore[arg-type]
    if {first, second} == {S.MEAN, S.COUNT}:
        return local(S.SUM, left, right)
    if {first, second} == {S.SUM, S.RATE}:
        return local(S.MEAN, left, right)
    return local(S.MIXED, left, right)


def _quotient(first: Spread | None, second: Spread | None, left: Values, right: Values, right_node: ast.expr) -> Values:
    if second is None:
        assert first is not None
        return _same(first, left, right)
    if first is S.SUM and second is S.COUNT:
        return local(S.MEAN, left, right)
    if first is S.SUM and second is S.SUM and not any(v.grad for v in locals_of(right)):
        return local(S.RATIO, left, right, weight="{weight}", parts=(("weight", right_node),))
    return local(S.MIXED, left, right)


def _same(kind: Spread, left: Values, right: Values) -> Values:
    ratio = next((v for v in (*locals_of(left), *locals_of(right)) if v.spread is kind is S.RATIO), None)
    if ratio is not None:
        return frozenset({altered(ratio, grad=any(v.grad for v in (*locals_of(left), *locals_of(right))))})
    return local(kind, left, right)


def rows_of(values: Values) -> Local | None:
    """The rows among `values`."""
    return next((v for v in locals_of(values) if v.spread is S.SHARD), None)


def tensor_method(name: str, base: Values, dims: list[object] | None, inputs: list[Values], keeps: bool = False) -> Values:
    """The spread of `base.name(...)`, where `dims` are the literal dimensions of a reduction (None: none given)."""
    kinds = spreads(base)
    if S.SHARD in kinds:
        return _shard_method(name, base, dims, keeps)
    if S.SHARD in set().union(*map(spreads, inputs)):
        return local(S.SHARD, next(v for v in inputs if S.SHARD in spreads(v)), joined=False)  # `zeros.index_add_(0, graph, nodes)` has rows of its own
    if name.rstrip("_") in ARITHMETIC and inputs:
        return combine(ARITHMETIC[name.rstrip("_")], base, inputs[0], ast.Constant(0))
    if name in catalog.DETACHING:
        return without_grad(base)
    return without_host(base) if name in catalog.LINEAR else curved(base, *inputs)


def curved(*inputs: Values) -> Values:
    """The spread of a function of `inputs` that is not linear: of a mean or a sum it makes neither."""
    figures = set().union(*map(spreads, inputs)) - {S.COUNT, S.RATE, S.ROW}
    return local(S.MIXED, *inputs) if figures else without_host(inputs[0])


def made_of(values: Values, inputs: list[Values], operand: ast.expr) -> Values:
    """What no formula makes global, computed from `operand` alone: from the global rows or figure it is the global figure."""
    alone = bool(locals_of(inputs[0])) and not any(map(locals_of, inputs[1:])) and spread_of(inputs[0]) is not S.MIXED
    return frozenset(altered(v, reduced=operand) if isinstance(v, Local) and v.spread is S.MIXED and alone else v for v in values)


def _shard_method(name: str, base: Values, dims: list[object] | None, keeps: bool) -> Values:
    rows = rows_of(base)
    assert rows is not None
    if name in {"chunk", "split", "tensor_split"}:
        base = frozenset(altered(v, blocks="") if v.blocks == "equal" else v for v in locals_of(base))
    if name in catalog.ROW_REDUCTIONS and axes.covers(rows, dims):
        return local(Spread(catalog.ROW_REDUCTIONS[name]), base)
    if name in catalog.OTHER_REDUCTIONS and axes.covers(rows, dims) and (dims is not None or name not in {"argmax", "argmin"} or rows.rank == 1):
        return local(S.MIXED, base)
    if name in catalog.SELECTIONS and axes.compares_rows(rows, dims):
        return local(S.MIXED, base)
    if name in {*catalog.ROW_REDUCTIONS, *catalog.OTHER_REDUCTIONS} and dims is not None:
        left = axes.without(rows, dims, keeps)
        return local(S.SHARD, base, axis=left.axis, rank=left.rank)
    if name in {"to", "cuda"}:
        return frozenset(altered(v, host=False, output=False) for v in locals_of(base))
    if name in catalog.QUESTIONS:
        return frozenset({Local(S.SHARD, truth=True, axis=rows.axis, rank=rows.rank)})  # no gradient flows through a comparison
    if name in {"float", "long"}:
        return frozenset(altered(v, truth=False) for v in locals_of(base))
    if name in axes.SHAPING:
        return shaped(name, base, dims or [])
    if name in catalog.DETACHING:
        return without_grad(base)
    if name in {"cpu", "clone"}:
        return frozenset(altered(v, batch=False, output=False) for v in locals_of(base))  # so it is a tensor
    if name in {"items", "values", "get", "pop"}:
        return frozenset(locals_of(base))
    return local(S.SHARD, base, host=all(v.host for v in locals_of(base)))


def shaped(name: str, values: Values, numbers: list[object]) -> Values:
    """Rows after a shape operation (see `axes.shaped`)."""
    return frozenset(axes.shaped(name, v, numbers) if v.spread is S.SHARD else v for v in locals_of(values))


def indexed(values: Values, index: ast.expr) -> Values:
    """Rows under an index with several entries, or None."""
    entries = [_entry(e) for e in (index.elts if isinstance(index, ast.Tuple) else [index])]
    return frozenset(axes.indexed(v, entries) if isinstance(v, Local) and v.spread is S.SHARD else v for v in values)


def sliced(values: Values, node: ast.Subscript, bounds: list[Values]) -> Values:
    """Rows between fixed `bounds`, where the slice or index `node` cuts their first dimension."""
    first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    fixed = bool(bounds) and all(len(b) == 1 and isinstance(v, Literal) and isinstance(v.value, int) for b in bounds for v in b or [None])
    return counted(values, node) if isinstance(first, ast.Slice) and fixed else values


def counted(values: Values, node: ast.Subscript) -> Values:
    """The row `node` of rows that a counter picks: as little that of the batch as the rows between fixed bounds are."""
    return frozenset(
        altered(v, sliced=v.sliced or node.value) if isinstance(v, Local) and v.spread is S.SHARD and v.axis == 0 and not v.batch and not v.output else v
        for v in values
    )


def picked(values: Values, base: Values, index: ast.expr) -> Values:
    """`state[-1]` of rows in a later dimension: `values` are its elements, in which the dimension before them is gone."""
    at = _entry(index)
    behind = any(v.spread is S.SHARD and v.axis > 0 and not v.batch and not v.output for v in locals_of(base))
    if not behind or not isinstance(at, int):
        return values
    return frozenset(axes.indexed(v, [at]) if isinstance(v, Local) and v.spread is S.SHARD else v for v in values)


def _entry(index: ast.expr) -> object:
    """An entry of an index: its number, None, or the expression."""
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub) and isinstance(index.operand, ast.Constant):
        return -index.operand.value if isinstance(index.operand.value, int) else index
    return index.value if isinstance(index, ast.Constant) else index


def product(left: Values, right: Values) -> Values:
    """The spread of the matrix product `left @ right`."""
    return _product_of(axes.product(rows_of(left), rows_of(right)), left, right)


def contraction(equation: object, operands: list[Values]) -> Values:
    """The spread of `einsum(equation, *operands)`."""
    return _product_of(axes.contracted(equation, [rows_of(v) for v in operands]), *operands)


def _product_of(found: Local | str | None, *inputs: Values) -> Values:
    if found is None:
        figures = [v for v in inputs if spreads(v)]
        return without_host(figures[0]) if len(figures) == 1 else curved(*inputs)
    if isinstance(found, Local):
        return local(S.SHARD, *inputs, axis=found.axis, rank=found.rank)
    return local(S.SUM if found == "sum" else S.MIXED, *inputs)


def field(batch: Local, key: object) -> Local:
    """What `batch` (or a tensor) holds under `key`."""
    return altered(batch, batch=False, fields="", joined=batch.joined or f"|{key}|" in batch.fields)


def pooled(rows: Values) -> Values:
    """`rows`, once those that belong to one sample are one row."""
    return frozenset(altered(v, joined=False) if isinstance(v, Local) else v for v in rows)


def over_joined(values: Values, inputs: list[Values], rows: ast.expr) -> Values:
    """Means of `inputs`, in which joined rows take part: their number, that of `rows`, is the denominator."""
    if not any(v.joined for given in inputs for v in locals_of(given)):
        return values
    return frozenset(
        altered(v, spread=S.RATIO, weight="len({rows})", parts=(("rows", rows),)) if isinstance(v, Local) and v.spread is S.MEAN else v for v in values
    )


def taken_at(node: ast.AST, batch: Values) -> Values:
    """`batch`, taken from its loader at `node`."""
    return frozenset(altered(v, taken=v.taken or frozenset({node})) if isinstance(v, Local) else v for v in batch)


def are_true_or_false(values: Values) -> bool:
    return any(v.truth for v in locals_of(values))


def row_count(rows: Values) -> Values:
    """The spread of the number of `rows`; that of rows chosen by a mask is in no proportion to the batch, but adds up."""
    return local(S.SUM if is_filtered(rows) or any(v.joined for v in locals_of(rows)) else S.COUNT)


def is_filtered(rows: Values) -> bool:
    return any(v.mask is not None for v in locals_of(rows))


def shape_of(rows: Local) -> str:
    """What a shape is remembered by: the dimension of the rows, and whether they were chosen by a mask."""
    axis = rows.axis if rows.axis >= 0 else "unknown"
    return f"shape {axis}" if rows.mask is None and not rows.joined else f"filtered {axis}"


def places(mask: Values, node: ast.expr) -> Values:
    """The spread of `mask.nonzero()`, where `node` is the mask: as many rows as hold true."""
    return local(S.SHARD, mask, mask=node)


def chosen(rows: Values, index: Values, node: ast.expr) -> Values:
    """The spread of `rows[index]`, where `node` is the index: a mask, or the places where one holds."""
    if S.SHARD not in spreads(rows):
        return rows
    found = next((v.mask for v in locals_of(index) if v.mask is not None), None)
    if not are_true_or_false(index) and found is None:
        return rows
    node = node if are_true_or_false(index) else found
    return frozenset(altered(v, mask=node, truth=False, host=False) if isinstance(v, Local) else v for v in rows)


def without_grad(values: Values) -> Values:
    if not any(isinstance(v, Local) and v.grad for v in values):
        return values
    return frozenset(altered(v, grad=False) if isinstance(v, Local) and v.grad else v for v in values)


def statistic(values: Values) -> bool:
    """Whether `values` are a figure of a batch, without gradient, that can be made that of the global batch."""
    figures = locals_of(values)
    known = {S.MEAN, S.SUM}
    return bool(figures) and all(not v.grad and (v.spread in known or v.reduced is not None or (v.spread is S.RATIO and bool(v.weight))) for v in figures)


def without_host(values: Values) -> Values:
    return frozenset(altered(v, host=False) if isinstance(v, Local) else v for v in values)


def loss_spread(name: str, reduction: object, inputs: list[Values]) -> Values:
    """The spread of a library loss `name` on `inputs` with `reduction`."""
    if not any(S.SHARD in spreads(v) for v in inputs):
        return UNKNOWN
    if reduction == "sum":
        return local(S.SUM, *inputs)
    if reduction == "none":
        known = rows_of(inputs[0]) if inputs else None
        flat = name in catalog.CLASS_WEIGHTED_LOSSES and known is not None and known.rank == 2
        return local(S.SHARD, *inputs, rank=1 if flat else None, per_row=True)
    return local(S.MEAN, *inputs)
