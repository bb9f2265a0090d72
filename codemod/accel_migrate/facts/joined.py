"""Fields of a batch in which a `collate_fn` joins any number of rows of each sample: the nodes of graphs, the boxes of images.

`torch.cat(nodes)` has as many rows as the samples have together. Two processes with equally many samples have other numbers
of them, so a mean over them is none over samples: its denominator is their number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.classes import find_method
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.ragged import makes_rows
from accel_migrate.facts.values import Function, Instance, Values, locals_of

JOINS = {"cat", "concat", "concatenate", "hstack", "vstack"}
ROW_BY_ROW = {"float", "long", "abs", "pow", "detach", "cpu", "eq", "ne", "log", "exp", "clamp"}
TENSORS = {"from_numpy", "tensor", "as_tensor", "FloatTensor", "LongTensor"}


def joined_fields(facts: Facts, collators: Values) -> frozenset[object]:
    """The indices, keys and attributes under which batches hold joined rows, as any of `collators` returns them."""
    found: set[object] = set()
    for value in collators:
        body = (
            value.node
            if isinstance(value, Function)
            else find_method(facts, value.cls.node, "__call__")
            if isinstance(value, Instance)
            else None
        )
        if isinstance(body, ast.FunctionDef) and not makes_rows(body):
            for node in (n for n in ast.walk(body) if isinstance(n, ast.Return) and n.value is not None):
                found |= {key for key, part in _parts(facts, node.value) if _is_joined(body, part)}  # type: ignore[arg-type]
    return frozenset(found)


def rows_in(facts: Facts, node: ast.expr) -> ast.expr:
    """The joined rows of which `node` is computed row by row, by a short name; `node` itself where none has one."""
    pending = [node]
    while pending:
        inner = pending.pop()
        if isinstance(inner, ast.Name | ast.Attribute | ast.Subscript):
            if any(v.joined for v in locals_of(facts.of(inner))):
                return inner
        elif isinstance(inner, ast.BinOp):
            pending += [inner.right, inner.left]
        elif isinstance(inner, ast.Compare):
            pending += [*inner.comparators, inner.left]
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in ROW_BY_ROW:
            pending.append(inner.func.value)
    return node


def _parts(facts: Facts, value: ast.expr) -> Iterator[tuple[object, ast.expr]]:
    """What a batch holds, with the index, key or attribute for it."""
    if isinstance(value, ast.Tuple | ast.List):
        yield from enumerate(value.elts)
    elif isinstance(value, ast.Dict):
        yield from (
            (key.value, part)
            for key, part in zip(value.keys, value.values, strict=True)
            if isinstance(key, ast.Constant)
        )
    elif isinstance(value, ast.Call):
        yield from ((k.arg, k.value) for k in value.keywords if k.arg is not None)
        classes = [n for _, n in facts.nodes(ast.ClassDef) if n.name == ast.unparse(value.func)]  # type: ignore[attr-defined]
        init = find_method(facts, classes[0], "__init__") if len(classes) == 1 else None
        if init is not None:
            yield from zip((a.arg for a in init.args.args[1:]), value.args, strict=False)


def _is_joined(body: ast.FunctionDef, part: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
    if isinstance(part, ast.Name):
        if part.id in seen:
            return False
        made = [n.value for n in ast.walk(body) if isinstance(n, ast.Assign) and any(isinstance(t, ast.Name) and t.id == part.id for t in n.targets)]
        last = max(made, key=lambda value: value.lineno, default=None)
        return last is not None and _is_joined(body, last, seen | {part.id})
    if not isinstance(part, ast.Call):
        return False
    if isinstance(part.func, ast.Attribute) and part.func.attr in {"long", "float", "int", "to", "contiguous"}:
        return _is_joined(body, part.func.value, seen)
    name = part.func.attr if isinstance(part.func, ast.Attribute) else ast.unparse(part.func)
    if name in TENSORS and part.args:
        return _is_joined(body, part.args[0], seen)
    rest = [*part.args[1:], *(k.value for k in part.keywords if k.arg in {"dim", "axis"})]
    along_rows = all(isinstance(dim, ast.Constant) and dim.value == 0 for dim in rest)
    return name in JOINS and bool(part.args) and along_rows and not _one_row_each(part.args[0])


def _one_row_each(parts: ast.expr) -> bool:
    """`[x.unsqueeze(0) for x in batch]`, `[x[None] for x in batch]`: a row for each sample."""
    element = parts.elt if isinstance(parts, ast.ListComp | ast.GeneratorExp) else None
    if isinstance(element, ast.Subscript):
        return isinstance(element.slice, ast.Constant) and element.slice.value is None
    return (
        isinstance(element, ast.Call) and isinstance(element.func, ast.Attribute) and element.func.attr == "unsqueeze"
    )
