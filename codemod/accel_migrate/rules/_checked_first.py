"""A program that ends where its folder exists already: every process looks before one of them makes the folder."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.dialects import ACCELERATOR
from accel_migrate.edits import Edit, InsertBefore
from accel_migrate.side_effects import is_guarded

WHY = "every process looks whether the folder is there before one makes it"
LOOKS = {"exists", "isdir", "isfile", "is_dir", "is_file"}
MAKES = {"makedirs", "mkdir"}
ENDS = {"exit", "quit", "_exit"}


def wait_between(context: Context, rule: str) -> Iterator[Edit]:
    """A barrier ahead of each statement that makes a folder whose existence ended the program just above."""
    for _, call in context.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        place = _made(call)
        statement = context.facts.statement(call) if place is not None else None
        if place is None or not isinstance(statement, ast.Expr) or context.facts.is_dead(call) or is_guarded(context.facts, call):
            continue
        block = context.facts.block(statement)
        above = block[: next(i for i, s in enumerate(block) if s is statement)]
        check = next((s for s in above if _ends_where_it_exists(s, place)), None)
        if check is not None:  # the accelerator is there before the check, so that the barrier can stand right behind
            text, imports = context.say_anywhere(f"{ACCELERATOR}.wait_for_everyone()", check, rule)
            yield InsertBefore(source=context.source(statement), rule=rule, why=WHY, node=statement, template=text)
            yield from imports


def _made(call: ast.Call) -> str | None:
    """The text of the folder that `call` makes."""
    if not isinstance(call.func, ast.Attribute | ast.Name):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
    if name not in MAKES:
        return None
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) != "os":
        return ast.unparse(call.func.value)
    return ast.unparse(call.args[0]) if call.args else None


def _ends_where_it_exists(statement: ast.stmt, place: str) -> bool:
    """Whether `statement` is `if os.path.exists(place): raise ...`, with whatever conditions beside it."""
    if not isinstance(statement, ast.If) or not _ends(statement.body[-1]):
        return False
    calls = (n for n in ast.walk(statement.test) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in LOOKS)
    return any(place in {ast.unparse(call.func.value), *map(ast.unparse, call.args)} for call in calls)  # type: ignore[attr-defined]


def _ends(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, ast.Raise) or (isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] in ENDS)
