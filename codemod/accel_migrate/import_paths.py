"""Folders that a program adds to `sys.path`: where else its modules lie.

The places are computed from what stands in the file: literals, `__file__`, and the usual functions on paths. Nothing is run.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from accel_migrate.source import Source

_SAME = {
    "abspath",
    "realpath",
    "normpath",
    "relpath",
    "expanduser",
    "expandvars",
    "resolve",
    "absolute",
    "as_posix",
    "fspath",
}
"""Functions and methods that give another text for the same place."""
_MAKERS = {"Path", "PurePath", "PosixPath", "str"}
_NAMED = {"pardir": "..", "curdir": ".", "sep": "/"}
_MOST_STEPS = 30
"""Names can be defined by themselves; no place is that many steps away."""


@dataclass(frozen=True)
class Added:
    """One folder, as the file gives it: absolute, or relative to the working directory."""

    folder: str
    first: bool
    """Whether it is searched before the script's own folder."""


def added_paths(source: Source) -> list[Added]:
    """What `source` adds to `sys.path`, in the order of the file."""
    if "path" not in source.text or "sys" not in source.text:
        return []
    reader = _Reader(source)
    return list(
        dict.fromkeys(Added(folder, first) for node, first in _additions(source) for folder in reader.texts(node))
    )


def _additions(source: Source) -> Iterator[tuple[ast.expr, bool]]:
    """Each expression that becomes an entry of `sys.path`, and whether it comes first."""
    for node in source.index.of_kind(ast.Call, ast.Assign, ast.AugAssign):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and _is_path(node.func.value)
            and node.args
        ):
            if node.func.attr == "insert" and len(node.args) == 2:
                yield node.args[1], True
            elif node.func.attr == "append":
                yield node.args[0], False
            elif node.func.attr == "extend":
                yield from ((entry, False) for entry in _entries(node.args[0]))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "site.addsitedir" and node.args:
            yield node.args[0], False
        elif isinstance(node, ast.AugAssign) and _is_path(node.target):
            yield from ((entry, False) for entry in _entries(node.value))
        elif isinstance(node, ast.Assign) and any(_is_path(_whole(target)) for target in node.targets):
            yield from ((entry, True) for entry in _entries(node.value))


def _is_path(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Name)
        and node.value.id == "sys"
    )


def _whole(target: ast.expr) -> ast.expr:
    """`sys.path` of `sys.path[0]` and `sys.path[:0]`."""
    return target.value if isinstance(target, ast.Subscript) else target


def _entries(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    if isinstance(node, ast.BinOp):
        return [*_entries(node.left), *_entries(node.right)]
    return [] if _is_path(_whole(node)) else [node]


class _Reader:
    """The texts that expressions of one file may have."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.steps = 0

    def texts(self, node: ast.expr) -> list[str]:
        """All values that can be seen for `node`; none where one part is not known."""
        self.steps += 1
        try:
            return list(self._texts(node)) if self.steps < _MOST_STEPS else []
        finally:
            self.steps -= 1

    def _texts(self, node: ast.expr) -> Iterator[str]:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield from [os.path.abspath(self.source.path)] if node.id == "__file__" else self._named(node.id)
        elif isinstance(node, ast.JoinedStr):
            yield from self._joined([v.value if isinstance(v, ast.FormattedValue) else v for v in node.values], "".join)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            yield from self._joined([node.left, node.right], "".join)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from self._joined([node.left, node.right], _joined_path)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)
        elif isinstance(node, ast.Subscript):
            yield from self._item(node)
        elif isinstance(node, ast.Call):
            yield from self._call(node)

    def _attribute(self, node: ast.Attribute) -> Iterator[str]:
        if node.attr == "parent":
            yield from map(_parent, self.texts(node.value))
        elif node.attr in _NAMED:
            yield _NAMED[node.attr]

    def _item(self, node: ast.Subscript) -> Iterator[str]:
        """`Path(__file__).parents[1]`, `os.path.split(place)[0]`."""
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr == "parents" and isinstance(number, int):
            for text in self.texts(value.value):
                for _ in range(number + 1):
                    text = _parent(text)
                yield text
        elif isinstance(value, ast.Call) and _called(value) == "split" and value.args and number == 0:
            yield from map(_parent, self.texts(value.args[0]))

    def _call(self, node: ast.Call) -> Iterator[str]:
        called = _called(node)
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if called in {"getcwd", "cwd"}:
            yield "."
        elif called == "joinpath" and base is not None:
            yield from self._joined([base, *node.args], _joined_path)
        elif called == "join" or called in _MAKERS:
            yield from self._joined(node.args, _joined_path)
        elif called == "dirname" and node.args:
            yield from map(_parent, self.texts(node.args[0]))
        elif called in _SAME:
            yield from self.texts(node.args[0] if node.args else base) if node.args or base is not None else []  # type: ignore[arg-type]

    def _joined(self, parts: list[ast.expr], join) -> Iterator[str]:  # type: ignore[no-untyped-def]
        """The first values of all parts put together."""
        found = [self.texts(part)[:1] for part in parts]
        if all(found):
            yield join([text for texts in found for text in texts])

    def _named(self, name: str) -> Iterator[str]:
        """What the file binds the variable to, or passes for the parameter."""
        for node in self.source.index.of_kind(ast.Assign, ast.For, ast.FunctionDef):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                yield from self.texts(node.value)
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == name:
                yield from (text for entry in _entries(node.iter) for text in self.texts(entry))
            elif isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args]
                if name in names:
                    yield from self._passed(node.name, names.index(name), name)

    def _passed(self, function: str, place: int, name: str) -> Iterator[str]:
        for call in self.source.index.of_kind(ast.Call):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function:
                given = call.args[place : place + 1] or [k.value for k in call.keywords if k.arg == name]
                yield from (text for node in given for text in self.texts(node))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _parent(text: str) -> str:
    """The folder that holds a place; of one in the working directory, that."""
    return os.path.dirname(text.rstrip("/")) or "."


def _joined_path(parts: list[str]) -> str:
    return os.path.join(*parts) if parts else "."


def existing(added: Added, working: list[Path]) -> Path | None:
    """The folder on disk; a relative one lies in one of the folders that may be the working directory."""
    for folder in working:
        found = folder / added.folder  # an absolute one stands for itself
        if found.is_dir():
            return Path(os.path.normpath(found))
    return None
