"""Whether a variable has a value whichever way a choice goes."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts

LEAVING = (ast.Raise, ast.Return, ast.Continue, ast.Break)
EXITS = {"sys.exit", "exit", "quit", "os._exit"}


def surely_bound(facts: Facts, statements: list[ast.stmt], choice: ast.If) -> bool:
    """Whether one of `statements` binds its variable also if `choice`'s condition is false: before it, or in each of its branches."""
    return _binds_always(choice, statements) or any(_comes_first(facts, s, statements, choice) for s in statements)


def _comes_first(facts: Facts, statement: ast.stmt, statements: list[ast.stmt], choice: ast.If) -> bool:
    """Whether every way to `choice` leads through `statement`, or through a choice of which each branch binds."""
    outer: ast.stmt = statement
    while isinstance(parent := facts.parents[outer], ast.stmt) and parent is not choice:
        if isinstance(parent, ast.If) and not _binds_always(parent, statements):
            break
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        outer = parent
    around = {id(a) for a in (choice, *facts.ancestors(choice))}
    return outer.lineno < choice.lineno and id(outer) not in around and any(id(s) in around for s in facts.block(outer))


def _binds_always(choice: ast.If, statements: list[ast.stmt]) -> bool:
    return bool(choice.orelse) and all(_binds(branch, statements) for branch in (choice.body, choice.orelse))


def _binds(block: list[ast.stmt], statements: list[ast.stmt]) -> bool:
    """Whether `block` binds, or is left."""
    wanted = {id(s) for s in statements}
    for statement in block:
        if isinstance(statement, ast.If):
            if _binds_always(statement, statements):
                return True
        elif _leaves(statement) or any(id(n) in wanted for n in ast.walk(statement)):
            return True
    return False


def _leaves(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func) in EXITS
    return isinstance(statement, LEAVING)
