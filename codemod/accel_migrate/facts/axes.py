"""Which dimension of a tensor holds the rows of the batch, through transpositions, reductions, products and joins.

The abstract dimension is `Local.axis`; `Local.rank` is the number of dimensions where it is known. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence

from accel_migrate.facts.values import Local, Spread, altered

ANYWHERE = -1
"""The axis of rows that a reshape has spread, or of values that disagree."""
ROWS = "rows"
"""Stands for the number of rows among the arguments of a shape operation."""
AFTER = {"norm": 1, "renorm": 1, "topk": 1, "kthvalue": 1, "quantile": 1, "nanquantile": 1, "roll": 1}
"""Arguments that stand before the dimension."""
REPEATING = {"expand", "new_empty", "new_full", "new_ones", "new_zeros", "repeat", "repeat_interleave", "tile"}
"""They make as many rows as one of their arguments says."""
SHAPING = {"flatten", "mT", "permute", "ravel", "reshape", "squeeze", "swapaxes", "swapdims", "t", "T", "transpose", "unsqueeze", "view"}


def position(dim: object, rank: int | None) -> int | None:
    """`dim` counted from the front; None where that is not known."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        return None
    return dim if dim >= 0 else None if rank is None else dim + rank


def covers(rows: Local, dims: Sequence[object] | None) -> bool:
    """Whether a reduction over `dims` (None: all) runs over the rows."""
    axis = max(rows.axis, 0)
    return dims is None or axis in {position(dim, rows.rank) for dim in dims}


def compares_rows(rows: Local, dims: Sequence[object] | None) -> bool:
    """Whether a selection along `dims` (None: the last dimension) compares the rows with each other."""
    if dims is None or list(dims) == [-1]:
        return rows.rank == 1 or (rows.rank is None and rows.per_row)
    return covers(rows, dims)


def without(rows: Local, dims: Sequence[object], keeps: bool) -> Local:
    """`rows` after a reduction over other dimensions than theirs."""
    if keeps:
        return rows
    removed = [position(dim, rows.rank) for dim in dims]
    before = sum(1 for dim in removed if dim is not None and 0 <= dim < rows.axis)
    return altered(rows, axis=rows.axis - before if rows.axis > 0 else rows.axis, rank=None if rows.rank is None else rows.rank - len(removed))


def shaped(name: str, rows: Local, numbers: Sequence[object]) -> Local:
    """`rows` after the shape operation `name` with the literal arguments `numbers` (other objects where they are not known)."""
    if name in {"t", "T"}:
        return _swapped(rows, 0, 1) if rows.rank in {None, 2} else altered(rows, axis=rows.rank - 1 - rows.axis) if rows.axis >= 0 else rows  # type: ignore[operator]
    if name == "mT":
        return _swapped(rows, -2, -1)
    if name in {"transpose", "swapaxes", "swapdims"} and len(numbers) == 2:
        return _swapped(rows, *numbers)
    if name == "permute":
        order = [position(number, rows.rank or len(numbers)) for number in numbers]
        return altered(rows, axis=order.index(rows.axis), rank=len(order)) if rows.axis in order else rows
    if name in {"unsqueeze", "squeeze"}:
        return _resized(rows, 1 if name == "unsqueeze" else -1, numbers)
    if name in {"view", "reshape"} and ROWS in numbers:
        return altered(rows, axis=numbers.index(ROWS), rank=len(numbers))
    if name in {"view", "reshape"} and rows.axis == 0 and list(numbers) != [-1]:
        return altered(rows, rank=len(numbers) if numbers and not any(isinstance(n, str) for n in numbers[:1]) else None)
    if (name in {"flatten", "ravel"} and not numbers) or (name in {"view", "reshape"} and list(numbers) == [-1]):
        return altered(rows, axis=0 if rows.axis == 0 else ANYWHERE, rank=1)
    return altered(rows, rank=None)


def repeated(name: str, numbers: Sequence[object]) -> Local:
    """The rows that `name` makes of a tensor without any, by the arguments `numbers`."""
    axis = numbers.index(ROWS) if ROWS in numbers and name != "repeat_interleave" else 0
    return Local(Spread.SHARD, axis=axis, rank=len(numbers) if axis else None)


def _swapped(rows: Local, first: object, second: object) -> Local:
    a, b = position(first, rows.rank), position(second, rows.rank)
    if rows.axis == a and b is not None:
        return altered(rows, axis=b)
    return altered(rows, axis=a) if rows.axis == b and a is not None else rows


def _resized(rows: Local, by: int, numbers: Sequence[object]) -> Local:
    if not numbers:  # squeeze(): which dimensions go is not known
        return altered(rows, rank=None)
    rank = None if rows.rank is None else rows.rank + by
    at = position(numbers[0], rank if by > 0 else rows.rank)
    moves = at is not None and (at <= rows.axis if by > 0 else at < rows.axis)
    return altered(rows, axis=rows.axis + by if moves else rows.axis, rank=rank)


def indexed(rows: Local, index: Sequence[object]) -> Local:
    """`rows[index]`: a None makes a dimension, an integer removes one, anything else keeps it."""
    axis, at = rows.axis, 0
    for entry in index:
        if entry is None and at <= axis:
            axis, at = axis + 1, at + 1
        elif isinstance(entry, int) and at < axis:
            axis -= 1
        else:
            at += 1
    return altered(rows, axis=axis, rank=None)


def stacked(rows: Local, dim: object) -> Local:
    """A stack of tensors like `rows` along a new dimension `dim`."""
    return _resized(rows, 1, [dim])


def product(left: Local | None, right: Local | None) -> Local | str | None:
    """The rows of `left @ right`; "sum" where the product sums over the rows, "mixed" where no formula is known."""
    if left is not None and right is not None:
        if left.axis == 1 and right.axis == 0:
            return "sum"
        return altered(left, rank=None) if left.axis == right.axis else altered(left, rank=2)
    if left is not None:
        return altered(left, rank=None) if left.axis != 1 or left.rank not in {None, 2} else "mixed"
    return None if right is None else altered(right, rank=None)


def contracted(equation: object, operands: Sequence[Local | None]) -> Local | str | None:
    """The rows of `einsum(equation, *operands)`; "sum" where it sums over the rows, "mixed" where no formula is known."""
    rows = [(i, operand) for i, operand in enumerate(operands) if operand is not None]
    if not rows:
        return None
    if not isinstance(equation, str):
        return rows[0][1]
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "." in equation or len(terms) != len(operands) or any(not 0 <= o.axis < len(terms[i]) for i, o in rows):
        return rows[0][1]
    letters = {terms[i][o.axis] for i, o in rows}
    if not arrow:
        every = inputs.replace(",", "")
        output = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    if len(letters) > 1 and not letters <= set(output):
        return "mixed"
    letter = min(letters, key=output.find)
    return altered(rows[0][1], axis=output.index(letter), rank=len(output)) if letter in output else "sum"
