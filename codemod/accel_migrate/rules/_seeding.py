"""Which seeding lines belong together: nothing between them draws, so that one line can stand for all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.facts import catalog
from accel_migrate.facts.draws import LOOPS

_QUIET = (
    "torch.device",
    "torch.cuda.",
    "torch.backends.",
    "torch.mps.",
    "torch.use_deterministic",
    "torch.set_",
    "os.",
    "warnings.",
    "logging.",
)
"""Beginnings of names of functions that draw nothing at random."""
_QUIET_BUILTINS = {
    "print",
    "str",
    "int",
    "float",
    "bool",
    "len",
    "format",
    "isinstance",
    "hasattr",
    "getattr",
    "setattr",
    "vars",
    "repr",
}
_QUIET_METHODS = {"info", "debug", "warning", "format", "join", "parse_args", "add_argument", "upper", "lower"}
STREAMS = {"random": "random", "numpy": "numpy", "torch": "torch"}
"""Packages by the stream of random numbers they hold."""


def occasions(context: Context, calls: list[ast.Call]) -> list[list[ast.stmt]]:
    """Seeding statements that seed alike, one list for each occasion, in order."""
    found: list[list[ast.stmt]] = []
    latest: dict[ast.AST, tuple[str, list[ast.stmt]]] = {}
    for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset)):
        statement, function, seed = (
            outermost(context, context.facts.statement(call)),
            context.facts.function(call),
            ast.unparse(call.args[0]),
        )
        known, group = latest.get(function, ("", []))
        if not group or known != seed or not _follows(context, group[-1], statement):
            group = []
            found.append(group)
            latest[function] = (seed, group)
        if statement not in group:
            group.append(statement)
    return found


def outermost(context: Context, statement: ast.stmt) -> ast.stmt:
    """The `if torch.cuda.is_available():` around a seeding line, if nothing else is in it."""
    parent = context.facts.parents[statement]
    if isinstance(parent, ast.If) and not parent.orelse and all(seeds(context, s) for s in parent.body):
        return parent
    return statement


def seeds(context: Context, statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and context.facts.external.get(statement.value) in catalog.SEEDERS
    )


def is_repeated(context: Context, groups: list[list[ast.stmt]]) -> bool:
    """Whether streams are seeded again in the same run: by several groups, or by one that runs more than once."""
    return len(groups) > 1 or not all(_runs_once(context, s) for group in groups for s in group)


def seeds_all_in_use(context: Context, statements: list[ast.stmt]) -> bool:
    """Whether the statements seed every stream that the program imports: then seeding all of them resets nothing else."""
    names = [context.facts.external.get(n, "") for s in statements for n in ast.walk(s) if isinstance(n, ast.Call)]
    seeded = {name.split(".")[0] for name in names if name in catalog.SEEDERS}
    imported = {package for source in context.facts.sources for package in _imported(source.tree)}
    return imported & set(STREAMS) <= seeded


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _follows(context: Context, earlier: ast.stmt, later: ast.stmt) -> bool:
    """Whether `later` comes after `earlier` whenever that runs, or under a condition, with no draw between them."""
    between: list[ast.stmt] = []
    current: ast.AST = later
    while True:
        block = context.facts.block(current) if isinstance(current, ast.stmt) else []
        if earlier in block:
            between += block[block.index(earlier) + 1 : block.index(current)]  # type: ignore[arg-type]
            return earlier is current or not any(_may_draw(context, s) for s in between)
        parent = context.facts.parents.get(current)
        if not isinstance(parent, ast.If):
            return False
        between += block[: block.index(current)]  # type: ignore[arg-type]
        current = parent


def _may_draw(context: Context, statement: ast.stmt) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
        return False
    return any(isinstance(n, ast.Call) and not _is_quiet(context, n) for n in ast.walk(statement))


def _is_quiet(context: Context, call: ast.Call) -> bool:
    name = context.facts.external.get(call, "")
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name in catalog.SEEDERS or name in _QUIET_BUILTINS or name.startswith(_QUIET) or method in _QUIET_METHODS


def _runs_once(context: Context, node: ast.AST, depth: int = 4) -> bool:
    facts = context.facts
    function = facts.function(node)
    for ancestor in facts.ancestors(node):
        if ancestor is function:
            break
        if isinstance(ancestor, LOOPS):
            return False
    calls = (
        list(facts.callers.get(function, {})) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []
    )
    return len(calls) < 2 and all(depth > 0 and _runs_once(context, call, depth - 1) for call in calls)
