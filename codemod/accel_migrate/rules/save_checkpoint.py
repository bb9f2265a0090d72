"""Files of weights are written once, by the main process, in the format they had.

`torch.save` becomes `accelerator.save`; the state dicts in it come through `get_state_dict`, which gives plain ones
under every strategy. Loading stays as it is: prepared objects take the original's state dicts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.dialects import ACCELERATOR
from accel_migrate.edits import Edit, Finding, InsertBefore, WrapStatements
from accel_migrate.facts.diverging import LOOKED_UP
from accel_migrate.facts.values import Role
from accel_migrate.opened import opened
from accel_migrate.rules._caches import caches
from accel_migrate.rules.backward import out_of_reach
from accel_migrate.same_file import path_argument, same_file
from accel_migrate.side_effects import is_guarded

ID = "save-checkpoint"
TITLE = "Save on the main process only, in the same format"
WHY = "one process writes; the state dicts are the original's"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    saves = [call for call in context.calls_of("torch.save") if call not in context.states.calls]
    for call in saves:
        try:
            yield context.replace(ID, call.func, context.say("@accelerator@.save", call), WHY)
        except Unreachable:
            yield from _guarded(context, call)
    if saves:
        yield from _state_dicts(context, saves)
        yield from _waits(context, saves)


def _guarded(context: Context, call: ast.Call) -> Iterator[Edit | Finding]:
    """In a model, or wherever the accelerator cannot be had, the state is written as it is, by the main process."""
    statement = context.facts.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        yield out_of_reach(context, call)
    elif not is_guarded(context.facts, call):
        header, imports = context.say_anywhere(f"if {ACCELERATOR}.is_main_process:", call, ID)
        yield WrapStatements(source=context.source(call), rule=ID, why=WHY, nodes=(statement,), header=header)
        yield from imports


def _waits(context: Context, saves: list[ast.Call]) -> Iterator[Edit]:
    """Before a file of this run is loaded again, every process waits until the main one has written it."""
    kept = list(caches(context))
    moves = context.calls_of("os.replace", "os.rename", "shutil.copy", "shutil.copyfile", "shutil.copy2", "shutil.move")
    written = [path for call in saves if (path := opened(context, path_argument(call, 1, "f"))[0]) is not None]
    written += [path for call in moves if (path := path_argument(call, 1, "dst")) is not None]
    for call in context.calls_of("torch.load"):
        path, opening = opened(context, path_argument(call, 0, "f"))
        statement = _before_looking(context, opening or context.facts.statement(call))
        if any(choice is statement or context.facts.inside(statement, choice) for choice in kept):
            continue
        if path is None or call in context.states.calls or is_guarded(context.facts, call) or not any(same_file(context, path, other) for other in written):
            continue
        with suppress(Unreachable):
            template = context.say("@accelerator@.wait_for_everyone()", statement)
            yield InsertBefore(source=context.source(call), rule=ID, why="the main process writes the file", node=statement, template=template)


def _before_looking(context: Context, statement: ast.stmt) -> ast.stmt:
    """The outermost `if os.path.exists(...)` around `statement`: whether the file is there is asked after the wait, too."""
    for ancestor in context.facts.ancestors(statement):
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.For | ast.While):
            break
        if isinstance(ancestor, ast.If) and any(context.facts.external.get(n, "") in LOOKED_UP for n in ast.walk(ancestor.test) if isinstance(n, ast.Call)):
            statement = ancestor
        elif isinstance(ancestor, ast.If) and ancestor.orelse == [statement]:
            statement = ancestor  # its `elif`
    return statement


def _state_dicts(context: Context, saves: list[ast.Call]) -> Iterator[Edit]:
    for call, (base, name) in context.facts.methods.items():
        if name != "state_dict" or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
            continue
        roles = {context.facts.role(v) for v in base}
        if not _is_saved(context, call, saves):
            continue
        if Role.MODEL in roles and context.is_prepared(call.func.value):
            template = context.dialect.model_state
        elif Role.OPTIMIZER in roles:
            template = context.dialect.optimizer_state
        else:
            continue
        try:
            text = context.say(template, call)
        except Unreachable:
            continue
        if text != "{x}.state_dict()":
            yield context.replace(ID, call, text, WHY, x=call.func.value)


def _is_saved(context: Context, call: ast.Call, saves: list[ast.Call]) -> bool:
    """Whether the state dict ends up in a file: written in the call, or by way of a variable or a helper function."""
    if any(context.facts.inside(call, save) for save in saves):
        return True
    statement = context.facts.statement(call)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        function = context.facts.function(call)
        return any(
            isinstance(n, ast.Call) and any(isinstance(a, ast.Name) and a.id == name for a in n.args) and _saves(context, n, saves)
            for n in ast.walk(function)
        )
    return any(isinstance(a, ast.Call) and a is not call and _saves(context, a, saves) for a in context.facts.ancestors(call))


def _saves(context: Context, call: ast.Call, saves: list[ast.Call]) -> bool:
    """Whether `call` saves, itself or through the function it calls."""
    if call in saves:
        return True
    return any(context.facts.function(save) in context.facts.callees.get(call, ()) for save in saves)
