"""`os.remove(best.pop())`: only the main process removes the file, but every process takes the entry out of its list."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Inner, InsertBefore

TAKING = {"pop", "popleft", "popitem", "heappop", "heappushpop", "heapreplace", "next"}
"""Methods and functions that give something and leave less behind."""


def parted(run: list[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """`run` in parts, each of which begins with what takes something away, if anything in it does."""
    part: list[ast.stmt] = []
    for statement in run:
        if part and _taking(statement):
            yield part
            part = []
        part.append(statement)
    yield part


def taken_ahead(context: Context, statement: ast.stmt, rule: str, why: str) -> Iterator[Edit]:
    """Arguments of `statement`, about to be guarded, which take something away are evaluated above the guard."""
    taken = {n.id for n in ast.walk(context.facts.function(statement)) if isinstance(n, ast.Name)}
    for argument in _taking(statement):
        name, count = "taken", 1
        while name in taken:
            count += 1
            name = f"taken_{count}"
        taken.add(name)
        yield InsertBefore(source=context.source(statement), rule=rule, why=why, node=statement, template=f"{name} = {{x}}", parts={"x": Inner(argument)})
        yield context.replace(rule, argument, name, why)


def _taking(statement: ast.stmt) -> list[ast.expr]:
    """Arguments of the call `statement` in which something is taken out of a container or an iterator."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return []
    arguments = [*statement.value.args, *(k.value for k in statement.value.keywords)]
    return [a for a in arguments if any(isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] in TAKING for n in ast.walk(a))]
