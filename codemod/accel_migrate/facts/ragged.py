"""A `collate_fn` that makes of each sample as many rows as it has parts: the pairs of a sentence, the crops of an image.

It flattens the samples into one list, `[pair for sample in samples for pair in sample]`, and everything it returns is made of
such lists. The rows of its batches are those parts, and a mean over them is none over samples.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

COMPREHENSIONS = ast.ListComp | ast.GeneratorExp


def makes_rows(function: ast.AST) -> bool:
    """Whether all that `function`, a `collate_fn`, returns has a row for each part of each sample."""
    if not isinstance(function, ast.FunctionDef | ast.Lambda):
        return False
    names = [a.arg for a in function.args.args if a.arg not in {"self", "cls"}]
    if len(names) != 1:
        return False
    batch = names[0]
    if isinstance(function, ast.Lambda):
        return _all_of_rows(function.body, batch, set())
    flat = _flat_names(function, batch)
    returns = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    return bool(returns) and all(value is not None and _all_of_rows(value, batch, flat) for value in returns)


def _flat_names(function: ast.FunctionDef, batch: str) -> set[str]:
    """The variables with an entry for each part of each sample."""
    flat: set[str] = set()
    for loop in (n for n in ast.walk(function) if isinstance(n, ast.For) and _is_name(n.iter, batch) and isinstance(n.target, ast.Name)):
        flat |= set(_filled(loop, loop.target.id))  # type: ignore[union-attr]
    assignments = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
    while more := {t.id for a in assignments for t in _names(a) if t.id not in flat and _is_of_rows(a.value, batch, flat)}:
        flat |= more
    return flat


def _names(assignment: ast.Assign) -> Iterator[ast.Name]:
    for target in assignment.targets:
        yield from (t for t in (target.elts if isinstance(target, ast.Tuple) else [target]) if isinstance(t, ast.Name))


def _filled(loop: ast.For, sample: str) -> Iterator[str]:
    """The lists that a loop over samples extends by each, or appends each of its parts to."""
    inner = [n for n in ast.walk(loop) if isinstance(n, ast.For) and _is_name(n.iter, sample)]
    for call in (n for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name)):
        name = call.func.attr  # type: ignore[attr-defined]
        extends = name == "extend" and len(call.args) == 1 and _is_name(call.args[0], sample)
        if extends or (name == "append" and any(call in ast.walk(each) for each in inner)):
            yield call.func.value.id  # type: ignore[attr-defined]


def _all_of_rows(value: ast.expr, batch: str, flat: set[str]) -> bool:
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else value.values if isinstance(value, ast.Dict) else [value]
    return bool(parts) and all(_is_of_rows(part, batch, flat) for part in parts)


def _is_of_rows(value: ast.expr, batch: str, flat: set[str]) -> bool:
    """Whether `value` is computed from the flat lists, and from the samples in no other way."""
    found = False
    pending: list[ast.AST] = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr) and _flattens(node, batch):
            found = True
        elif _is_name(node, batch):
            return False
        else:
            found = found or (isinstance(node, ast.Name) and node.id in flat)
            pending.extend(ast.iter_child_nodes(node))
    return found


def _flattens(node: ast.expr, batch: str) -> bool:
    if isinstance(node, COMPREHENSIONS) and len(node.generators) > 1:
        first, second = node.generators[:2]
        return _is_name(first.iter, batch) and isinstance(first.target, ast.Name) and _is_name(second.iter, first.target.id)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    name = ast.unparse(node.func)
    if name.endswith("chain.from_iterable") or (name == "sum" and len(node.args) == 2 and isinstance(node.args[1], ast.List)):
        return _is_name(node.args[0], batch)
    return name.rpartition(".")[2] == "chain" and isinstance(node.args[0], ast.Starred) and _is_name(node.args[0].value, batch)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
