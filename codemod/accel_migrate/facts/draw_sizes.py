"""How many rows a random draw has, as its arguments say."""

from __future__ import annotations

import ast

SIZES = {
    f"numpy.random.{name}": place
    for name, place in {"choice": 1, "randint": 2, "uniform": 2, "normal": 2, "beta": 2, "exponential": 1}.items()
}
"""Where draws take the number of what they draw; without it they draw one number."""
_BY_DIMENSIONS = {
    "torch.randn",
    "torch.rand",
    "numpy.random.rand",
    "numpy.random.randn",
    "numpy.random.random",
    "numpy.random.random_sample",
}
_SIZE_LAST = {"torch.randint", "torch.normal"}


def draws_one(name: str, node: ast.Call) -> bool:
    """`np.random.choice(views)`, `np.random.randint(0, 9)`: without a size, a single number."""
    place = SIZES.get(name)
    return place is not None and len(node.args) <= place and not any(k.arg in {"size", None} for k in node.keywords)


def counted(name: str, node: ast.Call) -> ast.expr | None:
    """`x`, where the draw has as many rows as it: `torch.randn(*x.shape)`, `torch.randint(9, (x.size(0),))`."""
    rows = _first_dimension(name, node)
    if isinstance(rows, ast.Call) and isinstance(rows.func, ast.Name) and rows.func.id == "len":
        return next(iter(rows.args), None)
    if isinstance(rows, ast.Subscript) and ast.unparse(rows.slice) == "0":
        rows = rows.value
    elif (
        isinstance(rows, ast.Call)
        and isinstance(rows.func, ast.Attribute)
        and [ast.unparse(a) for a in rows.args] in ([], ["0"])
    ):
        rows = rows.func
    return rows.value if isinstance(rows, ast.Attribute) and rows.attr in {"shape", "size"} else None


def _first_dimension(name: str, node: ast.Call) -> ast.expr | None:
    size = next((k.value for k in node.keywords if k.arg == "size"), None)
    if size is None and node.args and name in _BY_DIMENSIONS:
        size = node.args[0]
    elif size is None and len(node.args) > 1 and name in _SIZE_LAST:
        size = node.args[-1]
    elif size is None and len(node.args) > SIZES.get(name, len(node.args)):
        size = node.args[SIZES[name]]
    if isinstance(size, ast.Tuple | ast.List):
        size = next(iter(size.elts), None)
    return size.value if isinstance(size, ast.Starred) else size
