"""What comparisons of ranks and numbers of processes ask, and which constants stand in for one process."""

from __future__ import annotations

import ast
from functools import partial

from accel_migrate.facts.rank_names import Kind, Meaning


def about_rank(op: ast.cmpop, right: ast.expr) -> Meaning | None:
    text = ast.unparse(right)
    main, flag = partial(Meaning, Kind.MAIN), partial(Meaning, Kind.FLAG)
    table: dict[tuple[type[ast.cmpop], str], Meaning] = {
        (ast.Eq, "0"): main(), (ast.Is, "0"): main(), (ast.LtE, "0"): main(), (ast.Lt, "1"): main(),
        (ast.NotEq, "0"): main(True), (ast.Gt, "0"): main(True), (ast.GtE, "1"): main(True),
        (ast.NotEq, "-1"): flag(), (ast.GtE, "0"): flag(), (ast.Gt, "-1"): flag(), (ast.IsNot, "None"): flag(),
        (ast.Eq, "-1"): flag(True), (ast.Lt, "0"): flag(True), (ast.Is, "None"): flag(True),
    }  # fmt: skip
    elements = {ast.unparse(e) for e in right.elts} if isinstance(right, ast.Tuple | ast.List | ast.Set) else set()
    if isinstance(op, ast.In | ast.NotIn) and "0" in elements and elements <= {"-1", "0", "None"}:
        return main(isinstance(op, ast.NotIn))
    return table.get((type(op), text))


def about_size(op: ast.cmpop, right: ast.expr) -> Meaning | None:
    text = ast.unparse(right)
    if (type(op), text) in {(ast.Gt, "1"), (ast.NotEq, "1"), (ast.GtE, "2")}:
        return Meaning(Kind.FLAG)
    if (type(op), text) in {(ast.Eq, "1"), (ast.LtE, "1"), (ast.Lt, "2")}:
        return Meaning(Kind.FLAG, negated=True)
    return None


def stands_for_one(value: ast.expr) -> bool:
    """Whether `value` is a constant that stands in where there is one process: rank 0 or -1, one process, no flag."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        value = value.operand
    return isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, int | str))
