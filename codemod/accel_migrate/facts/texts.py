"""Parts of a batch that are texts (names, paths, ids): lists, which are on no device."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts

TEXT_FUNCTIONS = {"basename", "capitalize", "format", "join", "lower", "replace", "repr", "str", "strip", "upper", "zfill"}
TEXT_ATTRIBUTES = {"name", "stem", "suffix"}
"""Of paths."""


def is_text(facts: Facts, node: ast.expr) -> bool:
    """Whether `node`, a part of a batch, is made of texts, as far as the project's data sets show.

    `batch["id"]` where one makes `{"id": f"row_{i}"}`; `name` of `for x, y, name in loader` where one returns `x, y, str(path)`.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        key = node.slice.value
        displays = [d for _, d in facts.nodes(ast.Dict) if isinstance(d, ast.Dict)]
        return any(isinstance(k, ast.Constant) and k.value == key and _makes_text(v) for d in displays for k, v in zip(d.keys, d.values, strict=True))
    if not isinstance(node, ast.Name):
        return False
    places = [_place(target, node.id) for target in (getattr(a, "target", None) for a in facts.ancestors(node)) if isinstance(target, ast.Tuple)]
    return any(place is not None and any(len(t.elts) == place[1] and _makes_text(t.elts[place[0]]) for t in _samples(facts)) for place in places)


def _place(target: ast.Tuple, name: str) -> tuple[int, int] | None:
    """The position of `name` in `target`, and how many there are."""
    position = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name), None)
    return None if position is None else (position, len(target.elts))


def _samples(facts: Facts) -> list[ast.Tuple]:
    """The tuples that data sets return for one sample."""
    returned = (r for _, r in facts.nodes(ast.Return) if isinstance(r, ast.Return) and getattr(facts.function(r), "name", "") == "__getitem__")
    return [r.value for r in returned if isinstance(r.value, ast.Tuple)]


def _makes_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return _makes_text(node.left) or _makes_text(node.right)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        return name in TEXT_FUNCTIONS
    if isinstance(node, ast.Attribute):
        return node.attr in TEXT_ATTRIBUTES
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
