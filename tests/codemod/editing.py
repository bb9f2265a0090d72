"""Short ways to write edits in tests: nodes are found by what they say."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from accel_migrate import edits as e
from accel_migrate.rewrite import rewrite
from accel_migrate.source import Source

_Node = TypeVar("_Node", bound=ast.AST)
Edits = Callable[["Script"], list[e.Edit]]


class Script:
    """A source whose nodes and edits are given by text; the n-th of several equal ones by a suffix ` @n`."""

    def __init__(self, text: str) -> None:
        self.source = Source(Path("train.py"), text)

    def expr(self, text: str) -> ast.expr:
        """The expression that reads `text`."""
        text, place = _place(text)
        wanted = _loaded(ast.parse(f"f({text})", mode="eval").body.args[0])  # type: ignore[attr-defined]
        return self._find(ast.expr, lambda node: _loaded(node) == wanted, place)

    def stmt(self, text: str) -> Any:
        """The statement that reads `text`, or whose first line does."""
        text, place = _place(text)
        return self._find(ast.stmt, lambda node: ast.unparse(node).split("\n")[0] == text, place)

    def param(self, name: str) -> ast.arg:
        """The parameter `name`."""
        name, place = _place(name)
        return self._find(ast.arg, lambda node: node.arg == name, place)

    def _find(self, kind: type[_Node], fits: Callable[[Any], bool], place: int) -> _Node:
        found = [node for node in ast.walk(self.source.tree) if isinstance(node, kind) and fits(node)]
        return found[place]

    def _parts(self, parts: dict[str, str | ast.AST | e.Inner]) -> dict[str, ast.AST | e.Inner]:
        return {name: self.expr(part) if isinstance(part, str) else part for name, part in parts.items()}

    def _make(self, kind: type[Any], **fields: Any) -> Any:
        return kind(source=self.source, rule=kind.__name__, **fields)

    def replace(self, node: str, template: str, **parts: Any) -> e.Edit:
        return self._make(e.ReplaceExpression, node=self.expr(node), template=template, parts=self._parts(parts))

    def replace_stmt(self, node: str, template: str, **parts: Any) -> e.Edit:
        return self._make(e.ReplaceStatement, node=self.stmt(node), template=template, parts=self._parts(parts))

    def delete(self, node: str) -> e.Edit:
        return self._make(e.DeleteStatement, node=self.stmt(node))

    def before(self, node: str, template: str, **parts: Any) -> e.Edit:
        return self._make(e.InsertBefore, node=self.stmt(node), template=template, parts=self._parts(parts))

    def after(self, node: str, template: str, **parts: Any) -> e.Edit:
        return self._make(e.InsertAfter, node=self.stmt(node), template=template, parts=self._parts(parts))

    def wrap(self, header: str, *nodes: str, **parts: Any) -> e.Edit:
        found = tuple(map(self.stmt, nodes))
        return self._make(e.WrapStatements, nodes=found, header=header, parts=self._parts(parts))

    def unwrap(self, node: str) -> e.Edit:
        return self._make(e.UnwrapStatement, node=self.stmt(node))

    def add_argument(self, call: str, value: str, keyword: str | None = None) -> e.Edit:
        return self._make(e.AddArgument, node=self.expr(call), value=value, keyword=keyword)

    def add_base(self, header: str, value: str, keyword: str | None = None) -> e.Edit:
        return self._make(e.AddArgument, node=self.stmt(header), value=value, keyword=keyword)

    def remove_argument(self, call: str, argument: str) -> e.Edit:
        return self._make(e.RemoveArgument, node=self.expr(call), argument=self.expr(argument))

    def add_parameter(self, function: str, name: str, default: str | None = None) -> e.Edit:
        function, place = _place(function)
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        node = self._find(ast.stmt, lambda node: isinstance(node, kinds) and node.name == function, place)
        return self._make(e.AddParameter, node=node, name=name, default=default)

    def rename_parameter(self, parameter: str, name: str) -> e.Edit:
        return self._make(e.RenameParameter, parameter=self.param(parameter), name=name)

    def add_import(self, module: str, *names: str) -> e.Edit:
        return self._make(e.AddImport, module=module, names=names)

    def drop_import(self, name: str) -> e.Edit:
        return self._make(e.DropImportIfUnused, name=name)


def _place(text: str) -> tuple[str, int]:
    text, _, place = text.partition(" @")
    return text, int(place or 0)


def _loaded(node: ast.AST) -> str:
    return ast.dump(node).replace("Store()", "Load()")


def edited(text: str, edits: Edits) -> str:
    """`text` after `edits`."""
    script = Script(text)
    return rewrite(script.source, edits(script))
