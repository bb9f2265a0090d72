"""`save_state` called by the main process only: seen from the call's place in the source, or after a wait for the others."""

from __future__ import annotations

import ast
import datetime
import functools
import os
import sys
from collections.abc import Iterator
from types import FrameType

import torch.distributed as dist

from ..world import World
from .errors import CheckpointError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LEAVING = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_PATIENCE = "ACCEL_CHECKPOINT_PATIENCE"
_count = 0


def guarded_place(world: World) -> str | None:
    """`file:line` of the `if accelerator.is_main_process:` under which this was called; None if it was not."""
    if world.size == 1 or not world.is_main:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not os.path.abspath(name).startswith(_PACKAGE) and (line := _guard_over(name, frame.f_lineno)):
            return f"{name}:{line}"
        frame = frame.f_back
    return None


def calling_place() -> str:
    """`file:line` of the script's call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "an unknown line"


def meet(world: World, call: str) -> None:
    """Wait until every process has made this call, but not for ever.

    Raises:
        CheckpointError: some have not come within the seconds of `ACCEL_CHECKPOINT_PATIENCE`, by default 60.
    """
    global _count
    if world.size == 1:
        return
    _count += 1
    store = dist.distributed_c10d._get_default_store()
    keys = [f"accel/{call}/{_count}/{rank}" for rank in range(world.size)]
    store.set(keys[world.rank], "here")
    seconds = float(os.environ.get(_PATIENCE, "60"))
    try:
        store.wait(keys, datetime.timedelta(seconds=seconds))
    except dist.DistStoreError:
        missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
        raise CheckpointError(
            f"{call} at {calling_place()} was called by process {world.rank}, and within {seconds:.0f} seconds not by "
            f"process {', '.join(map(str, missing))}: every process has to call it (no `if accelerator.is_main_process:` around it)"
        ) from None


@functools.cache
def _guard_over(name: str, line: int) -> int | None:
    """The line of the innermost `if` for the main process whose body holds `line`."""
    found = [test for first, last, test in _guards(name) if first <= line <= last]
    return max(found, default=None)


@functools.cache
def _guards(name: str) -> list[tuple[int, int, int]]:
    """(first line, last line, line of the test) of what a file does on the main process only."""
    try:
        with open(name, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, ValueError, SyntaxError):
        return []
    return [guard for node in ast.walk(tree) for guard in _guards_in(node)]


def _guards_in(node: ast.AST) -> Iterator[tuple[int, int, int]]:
    """What the statements of `node` keep to the main process: under an `if`, behind one that the others leave by, in a decorated function."""
    if isinstance(node, ast.If):
        body = node.body if _asks_for_main(node.test) else node.orelse if _asks_for_others(node.test) else []
        if body:
            yield body[0].lineno, body[-1].end_lineno or body[-1].lineno, node.lineno
    if isinstance(node, ast.FunctionDef) and any(_is_decorator_of_main(d) for d in node.decorator_list):
        yield node.body[0].lineno, node.end_lineno or node.lineno, node.decorator_list[0].lineno
    for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
        for at, statement in enumerate(block if isinstance(block, list) else ()):
            left = (
                isinstance(statement, ast.If)
                and _asks_for_others(statement.test)
                and isinstance(statement.body[-1], _LEAVING)
            )
            if left and at + 1 < len(block):
                yield block[at + 1].lineno, block[-1].end_lineno or block[-1].lineno, statement.lineno


def _is_decorator_of_main(decorator: ast.expr) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(named, ast.Attribute) and named.attr == "on_main_process"


def _asks_for_main(test: ast.expr) -> bool:
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and any(map(_asks_for_main, test.values))
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.Eq) and _is_rank(test.left) and ast.unparse(test.comparators[0]) == "0"
    return isinstance(test, ast.Attribute) and test.attr == "is_main_process"


def _asks_for_others(test: ast.expr) -> bool:
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.NotEq) and _is_rank(test.left) and ast.unparse(test.comparators[0]) == "0"
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and _asks_for_main(test.operand)


def _is_rank(value: ast.expr) -> bool:
    named = value.func if isinstance(value, ast.Call) else value
    return (isinstance(named, ast.Attribute) and named.attr in ("process_index", "rank", "get_rank")) or (
        isinstance(named, ast.Name) and named.id in ("rank", "get_rank")
    )
