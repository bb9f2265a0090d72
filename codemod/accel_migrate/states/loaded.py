"""How a script goes on from its checkpoints: `checkpoint = torch.load(path)` and what it reads from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.facts.values import Role
from accel_migrate.states.saved import BY_ITSELF, assignments


@dataclass(eq=False)
class Restored:
    """`object.load_state_dict(checkpoint[key])`."""

    statement: ast.Expr
    call: ast.Call
    object: ast.expr
    key: str


@dataclass(eq=False)
class Read:
    """`checkpoint[key]`, `checkpoint.get(key)` or `key in checkpoint`: the name in it, and the key."""

    name: ast.Name
    key: str


@dataclass(eq=False)
class Loaded:
    """The statements that load one variable, and its uses.

    Attributes:
        dropped: `checkpoint = None`, `del checkpoint`.
        others: uses of another kind.
    """

    name: ast.Name
    statements: list[ast.Assign]
    calls: list[ast.Call]
    restored: list[Restored] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    dropped: list[ast.stmt] = field(default_factory=list)
    others: list[ast.AST] = field(default_factory=list)

    @property
    def path(self) -> ast.expr:
        call = self.calls[0]
        return call.args[0] if call.args else call.keywords[0].value


def loaded_files(context: Context) -> Iterator[Loaded]:
    """What is loaded into a variable."""
    seen: set[int] = set()
    for call in context.calls_of("torch.load"):
        statement = context.facts.statement(call)
        if id(statement) in seen or context.is_unused(call) or not _is_plain(statement, call):
            continue
        name = statement.targets[0]  # type: ignore[attr-defined]
        loads = [a for a in assignments(context, name) if context.facts.external.get(a.value) == "torch.load"]  # type: ignore[call-overload]
        seen |= {id(s) for s in loads}
        yield _with_uses(context, Loaded(name, loads, [s.value for s in loads]), name)  # type: ignore[misc]


def is_of_training(context: Context, loaded: Loaded, counters: set[str]) -> bool:
    """Whether an optimizer, a scheduler, a scaler or one of `counters` comes from it; else it is of weights."""
    roles = {context.facts.role(v) for r in loaded.restored for v in context.facts.of(r.object)}
    return bool(roles & BY_ITSELF) or any(read.key in counters for read in loaded.reads)


def _is_plain(statement: ast.stmt, call: ast.Call) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and statement.value is call
        and len(statement.targets) == 1
        and isinstance(statement.targets[0], ast.Name)
    )


def _with_uses(context: Context, loaded: Loaded, name: ast.Name) -> Loaded:
    stores = {context.facts.statement(n) for n in _names(context, name) if isinstance(n.ctx, ast.Store)} - set(loaded.statements)
    others = {s for s in stores if isinstance(s, ast.Assign) and s.targets[0] in context.facts.names(s, name.id) and not _drops(s)}
    for node in _names(context, name):
        statement = context.facts.statement(node)
        if others and (statement in others if isinstance(node.ctx, ast.Store) else latest(context, node, {*others, *loaded.statements}) in others):
            continue  # another value under the same name
        if isinstance(node.ctx, ast.Load):
            use = _use(context, node)
            if isinstance(use, Restored):
                loaded.restored.append(use)
            elif isinstance(use, Read):
                loaded.reads.append(use)
            else:
                loaded.others.append(node)
        elif _drops(statement):
            loaded.dropped += [statement] if any(statement.lineno > load.lineno for load in loaded.statements) else []
        elif statement not in loaded.statements:
            loaded.others.append(node)
    return loaded


def latest(context: Context, node: ast.Name, assignments: set[ast.stmt]) -> ast.stmt | None:
    """The one of `assignments` from which `node` certainly has its value; None where it may have it from several."""
    statement = context.facts.statement(node)
    while True:
        block = context.facts.block(statement)
        for earlier in reversed(block[: next(i for i, s in enumerate(block) if s is statement)]):
            if earlier in assignments:
                return earlier
            if any(context.facts.inside(each, earlier) for each in assignments):
                return None
        parent = context.facts.parents[statement]
        if isinstance(parent, ast.For | ast.While) and any(context.facts.inside(each, parent) for each in assignments):
            return None
        if not isinstance(parent, ast.stmt) or isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return None
        statement = parent


def _drops(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Delete):
        return len(statement.targets) == 1
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is None
    )


def _names(context: Context, name: ast.Name) -> Iterator[ast.Name]:
    owner = context.facts.scope(name).owner(name.id)
    if owner is not None:
        yield from (n for n in context.facts.names(owner.node, name.id) if context.facts.scope(n).owner(n.id) is owner)


def _use(context: Context, node: ast.Name) -> Restored | Read | None:
    parent = context.facts.parents[node]
    key: ast.expr | None = None
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        key = parent.slice
    elif isinstance(parent, ast.Attribute) and parent.attr == "get":
        call = context.facts.parents[parent]
        key = call.args[0] if isinstance(call, ast.Call) and call.func is parent and call.args else None
    elif (
        isinstance(parent, ast.Compare)
        and parent.comparators == [node]
        and isinstance(parent.ops[0], ast.In | ast.NotIn)
    ):
        key = parent.left
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return None
    call = context.facts.parents[parent]
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "load_state_dict"
        and parent in call.args
    ):
        statement = context.facts.parents[call]
        return Restored(statement, call, call.func.value, key.value) if isinstance(statement, ast.Expr) else None
    return Read(node, key.value)


def emptied(context: Context, loaded: Loaded) -> set[ast.stmt]:
    """The statements that restore objects or drop the variable, and the `if`s of which nothing else would be left."""
    gone = {r.statement for r in loaded.restored} | set(loaded.dropped)
    for statement in list(gone):
        parent = context.facts.parents[statement]
        while isinstance(parent, ast.If) and all(s in gone for s in (*parent.body, *parent.orelse)):
            gone.add(parent)
            parent = context.facts.parents[parent]
    return gone


def is_wrapped_choice(context: Context, restored: list[Restored], statement: ast.If) -> bool:
    """Whether `if`/`else` only says how the same object is reached: both branches restore it from the same key."""
    inside = [
        [r for r in restored if any(context.facts.inside(r.call, s) for s in block)]
        for block in (statement.body, statement.orelse)
    ]
    return all(inside) and len({r.key for block in inside for r in block}) == 1


def asks_for_presence(context: Context, test: ast.expr, restored: Restored) -> bool:
    """`"key" in checkpoint`, `scheduler is not None`, `scaler`: whether there is something to restore."""
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return all(_asks(context, one, restored) for one in tests)


def _asks(context: Context, test: ast.expr, restored: Restored) -> bool:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In):
        return isinstance(test.left, ast.Constant) and test.left.value == restored.key
    text = context.facts.text(restored.object)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        return context.facts.text(test.left) == text
    return context.facts.text(test) == text or context.facts.has_role(test, Role.SCALER)
