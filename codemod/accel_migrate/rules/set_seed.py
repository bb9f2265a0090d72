"""Seeding lines become one `set_seed`, where all streams get the same seed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import AddImport, DeleteStatement, DropImportIfUnused, Edit, Finding, ReplaceStatement
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Function
from accel_migrate.rules._seeding import is_repeated, occasions, seeds, seeds_all_in_use

ID = "set-seed"
TITLE = "Seed every stream in one line"
WHY = "seeds Python, NumPy and PyTorch alike on every process"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    calls = [c for c in context.calls_of(*catalog.SEEDERS) if _is_statement(context, c) and not _opaque(c) and not _in_worker(context, c)]
    if not any(context.facts.external[c].startswith("torch") for c in calls):
        return
    if len({_seed(c) for c in calls}) > 1 and not _all_in_functions(context, calls):
        return
    groups = occasions(context, calls)
    repeated = is_repeated(context, groups)
    for statements in groups:
        if not _is_taken(context, statements[0]) and (not repeated or seeds_all_in_use(context, statements)):
            yield from _rewrite(context, statements)


def _is_taken(context: Context, statement: ast.stmt) -> bool:
    """Whether the file has another `set_seed` of its own: then its seeding lines stay, which seed every process alike."""
    scope = context.facts.scopes[context.source(statement).tree]
    own = [s for s in scope.node.body if isinstance(s, ast.FunctionDef) and s.name == "set_seed"]  # type: ignore[attr-defined]
    return "set_seed" in scope.bound and not any(_is_own_set_seed(context, f) for f in own)


def _is_statement(context: Context, call: ast.Call) -> bool:
    parent = context.facts.parents[call]
    return isinstance(parent, ast.Expr) and len(call.args) + len(call.keywords) == 1


def _opaque(call: ast.Call) -> bool:
    return not call.args


def _in_worker(context: Context, call: ast.Call) -> bool:
    """Whether a loader's worker seeds itself there: in a data set, or in the function that starts a worker."""
    facts = context.facts
    function = facts.function(call)
    if not isinstance(function, ast.FunctionDef):
        return False
    own_class = facts.parents[function]
    if isinstance(own_class, ast.ClassDef) and any(isinstance(s, ast.FunctionDef) and s.name in {"__getitem__", "__iter__"} for s in own_class.body):
        return True
    starts = (k.value for _, c in facts.nodes(ast.Call) for k in c.keywords if k.arg == "worker_init_fn")  # type: ignore[attr-defined]
    return any(isinstance(v, Function) and v.node is function for start in starts for v in facts.of(start))


def _seed(call: ast.Call) -> str:
    return ast.unparse(call.args[0])


def _all_in_functions(context: Context, calls: list[ast.Call]) -> bool:
    """Whether each function seeds all its streams alike (a helper that takes the seed as its parameter)."""
    by_function: dict[ast.AST, set[str]] = {}
    for call in calls:
        by_function.setdefault(context.facts.function(call), set()).add(_seed(call))
    return all(len(seeds) == 1 for seeds in by_function.values()) and len(by_function) > 1


def _rewrite(context: Context, statements: list[ast.stmt]) -> Iterator[Edit]:
    facts = context.facts
    first = next((s for s in statements if isinstance(s, ast.Expr)), None)
    if first is None or not any(_is_torch(context, s) for s in statements):
        return
    source = context.source(first)
    function = facts.function(first)
    yield AddImport(source=source, rule=ID, why=WHY, module=context.dialect.utils_module, names=("set_seed",))
    for name in ("random", "np", "numpy"):
        yield DropImportIfUnused(source=source, rule=ID, name=name)
    if isinstance(function, ast.FunctionDef) and _is_own_set_seed(context, function):
        yield DeleteStatement(source=source, rule=ID, why="the runtime has this function", node=function)
        return
    assert isinstance(first.value, ast.Call)
    yield ReplaceStatement(source=source, rule=ID, why=WHY, node=first, template="set_seed({seed})", parts={"seed": first.value.args[0]})
    for statement in statements:
        if statement is not first:
            yield DeleteStatement(source=source, rule=ID, why="set_seed covers it", node=statement)


def _is_torch(context: Context, statement: ast.stmt) -> bool:
    return any(isinstance(n, ast.Call) and context.facts.external.get(n, "").startswith("torch.") and "cuda" not in context.facts.external[n]
               for n in ast.walk(statement))  # fmt: skip


def _is_own_set_seed(context: Context, function: ast.FunctionDef) -> bool:
    """`def set_seed(seed):` that does nothing but seed."""
    return (
        function.name == "set_seed"
        and len(function.args.args) == 1
        and all((seeds(context, s) and _seeds_with(s, function.args.args[0].arg)) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for s in function.body)
        and context.facts.scopes[function].parent is not None
        and context.facts.scopes[function].parent.parent is None  # type: ignore[union-attr]
    )


def _seeds_with(statement: ast.stmt, name: str) -> bool:
    """Whether a seeding line seeds with just the variable `name`."""
    call = statement.value  # type: ignore[attr-defined]
    return len(call.args) == 1 and isinstance(call.args[0], ast.Name) and call.args[0].id == name
