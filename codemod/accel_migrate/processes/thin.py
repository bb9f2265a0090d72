"""Functions of which the accelerator left nothing but itself: what they return or do is written at their calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.edits import DeleteStatement, Edit, ReplaceExpression, ReplaceStatement
from accel_migrate.processes.effects import has_no_effect
from accel_migrate.processes.uses import Uses

ID = "hand-made-ddp"
WHY = "the accelerator says so itself"


def thin_functions(before: Uses, after: Uses) -> Iterator[Edit]:
    """Calls of functions whose one statement reads or calls the accelerator that they are given."""
    for node in _functions(after):
        said = _said(node)
        if said is None or _was_thin(before, node):
            continue
        for read in after.reads_of_function(node.name):
            call = after.parents.get(read)
            if isinstance(call, ast.Call) and call.func is read and len(call.args) == 1 and not call.keywords:
                given = ast.unparse(call.args[0])
                template = f"{given}{said}"
                yield ReplaceExpression(source=after.scope(call).source, rule=ID, why=WHY, node=call, template=template)


def same_returns(before: Uses, after: Uses) -> Iterator[Edit]:
    """`if ...: return x` right above `return x`, where the two differed before."""
    known = set().union(*(s.index.texts(ast.If) for s in before.sources))
    for node in (n for s in after.sources for n in s.index.of_kind(ast.FunctionDef)):
        for first, second in zip(node.body, node.body[1:], strict=False):
            if not (isinstance(first, ast.If) and isinstance(second, ast.Return) and len(first.body) == 1 and has_no_effect(first.test)):
                continue
            branches = [first.body, *([first.orelse] if first.orelse else [])]
            if all(len(b) == 1 and ast.unparse(b[0]) == ast.unparse(second) for b in branches) and ast.unparse(first) not in known:
                yield DeleteStatement(source=after.scope(first).source, rule=ID, why=WHY, node=first, with_comment=True)


def plain_returns(before: Uses, after: Uses) -> Iterator[Edit]:
    """`size = accelerator.num_processes; return size`, of a function that did more before."""
    known = set().union(*(s.index.texts(ast.FunctionDef) for s in before.sources))
    for node in _functions(after):
        body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if len(body) != 2 or not isinstance(body[0], ast.Assign) or not isinstance(body[1], ast.Return) or ast.unparse(node) in known:
            continue
        if body[1].value is not None and ast.unparse(body[0].targets[0]) == ast.unparse(body[1].value) and has_no_effect(body[0].value):
            source = after.scope(body[0]).source
            yield DeleteStatement(source=source, rule=ID, why=WHY, node=body[0])
            yield ReplaceExpression(source=source, rule=ID, why=WHY, node=body[1].value, template=ast.unparse(body[0].value))


def returned_elements(before: Uses, after: Uses) -> Iterator[Edit]:
    """`local_rank, device = setup()`, where nobody reads `local_rank` any more: it is not returned either."""
    for node in _functions(after):
        returns = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
        calls = _unpacking(after, node.name)
        if not returns or not calls or not all(isinstance(r, ast.Tuple) for r in returns):
            continue
        count = len(returns[0].elts)  # type: ignore[union-attr]
        if any(len(r.elts) != count for r in returns) or any(len(c.targets[0].elts) != count for c in calls):  # type: ignore[union-attr, attr-defined]
            continue
        lost = [i for i in range(count) if all(_is_lost(before, after, c.targets[0].elts[i]) for c in calls)]  # type: ignore[attr-defined]
        lost = [i for i in lost if all(has_no_effect(r.elts[i]) for r in returns)]  # type: ignore[union-attr]
        kept = [i for i in range(count) if i not in lost]
        if lost and kept:
            for value in returns:
                yield _shorter(after, value, kept)  # type: ignore[arg-type]
            for call in calls:
                parts = {f"t{i}": call.targets[0].elts[i] for i in kept} | {"v": call.value}  # type: ignore[attr-defined]
                template = f"{', '.join(f'{{t{i}}}' for i in kept)} = {{v}}"
                yield ReplaceStatement(source=after.scope(call).source, rule=ID, why="nothing reads it any more", node=call, template=template, parts=parts)


def _shorter(after: Uses, value: ast.Tuple, kept: list[int]) -> Edit:
    parts: dict[str, ast.AST] = {f"v{i}": value.elts[i] for i in kept}
    template = ", ".join(f"{{v{i}}}" for i in kept)
    statement = after.parents[value]
    assert isinstance(statement, ast.Return)
    return ReplaceStatement(source=after.scope(value).source, rule=ID, why="nothing reads it any more", node=statement, template=f"return {template}", parts=parts)


def _unpacking(after: Uses, name: str) -> list[ast.Assign]:
    """The assignments that unpack what the function `name` returns; empty where it is used in another way."""
    found: list[ast.Assign] = []
    for read in after.reads_of_function(name):
        call = after.parents.get(read)
        statement = after.parents.get(call) if isinstance(call, ast.Call) and call.func is read else None
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Tuple):
            return []
        found.append(statement)
    return found


def _is_lost(before: Uses, after: Uses, target: ast.expr) -> bool:
    if not isinstance(target, ast.Name):
        return False
    variable = after.variable(target)
    return bool(before.variables.get(variable)) and not after.variables.get(variable) and bool(variable[1])


def _functions(uses: Uses) -> list[ast.FunctionDef]:
    """Functions of modules, each the only one with its name."""
    found = [n for s in uses.sources for n in s.tree.body if isinstance(n, ast.FunctionDef) and not n.decorator_list]
    return [f for f in found if sum(f.name == other.name for other in found) == 1]


def _said(node: ast.FunctionDef) -> str | None:
    """`.device` for `def f(accelerator): return accelerator.device`."""
    body = [s for s in node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    names = [a.arg for a in node.args.args]
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr) or names != ["accelerator"]:
        return None
    value = body[0].value
    text = ast.unparse(value) if value is not None else ""
    inner = value.func if isinstance(value, ast.Call) and not (value.args or value.keywords) else value
    plain = isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "accelerator"
    return text.removeprefix("accelerator") if plain else None


def _was_thin(before: Uses, node: ast.FunctionDef) -> bool:
    return any(ast.unparse(f) == ast.unparse(node) for f in _functions(before))
