"""Branches, loops and stand-ins that lost what they were there for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from accel_migrate.edits import DropElse, Edit, ReplaceExpression, UnwrapStatement
from accel_migrate.processes.compared import ID, WHY, Compared
from accel_migrate.processes.effects import has_no_effect, is_empty, looks_only


class Branches(Compared):
    """Deletions of whole statements that branch, in `after`."""

    def empty_branches(self) -> Iterator[Edit]:
        """`if`s, `try`s and loops which lost all they had in them."""
        known = set().union(*(s.index.texts(ast.If) for s in self.before.sources))
        for node in self._nodes(ast.If):
            assert isinstance(node, ast.If)
            if ast.unparse(node) in known or not has_no_effect(node.test):
                continue
            parent = self.after.parents[node]
            if is_empty(node.body) and not node.orelse and not self._is_elif(node):
                yield self._delete(node)
            elif node.orelse and is_empty(node.orelse):
                yield DropElse(source=self._source(node), rule=ID, why=WHY, node=node)
            elif is_empty(node.body) and not node.orelse:
                yield DropElse(source=self._source(node), rule=ID, why=WHY, node=parent)  # type: ignore[arg-type]
        for node in self._nodes(ast.Try):
            assert isinstance(node, ast.Try)
            if is_empty(node.body) and not (node.orelse or node.finalbody) and ast.unparse(node) not in self._known_tries:
                yield self._delete(node)
        for node in self._nodes(ast.For):
            assert isinstance(node, ast.For)
            if is_empty(node.body) and not node.orelse and looks_only(node.iter) and ast.unparse(node) not in self._known_loops:
                yield self._delete(node)

    def stand_ins(self) -> Iterator[Edit]:
        """`try: from library import Scaler` and the class that stands in for it elsewhere, when nothing needs either."""
        for node in self._nodes(ast.Try):
            assert isinstance(node, ast.Try)
            rest = [s for handler in node.handlers for s in handler.body]
            if isinstance(self.after.parents[node], ast.Module) and not (node.orelse or node.finalbody) and all(map(_only_defines, [*node.body, *rest])):
                names = {name for s in [*node.body, *rest] for name in _defined(s)}
                outside = [r for name in names for r in self.after.reads_of_function(name) if node not in self._around(r)]
                if any(self.before.reads_of_function(name) for name in names) and not outside:
                    yield self._delete(node)

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.after.parents:
            node = self.after.parents[node]
            yield node

    @cached_property
    def _known_tries(self) -> set[str]:
        return set().union(*(s.index.texts(ast.Try) for s in self.before.sources))

    @cached_property
    def _known_loops(self) -> set[str]:
        return set().union(*(s.index.texts(ast.For) for s in self.before.sources))

    def equal_branches(self) -> Iterator[Edit]:
        """`x if several else x`, the same as a statement, and `y = x` under a condition where `y = x` stands above."""
        known = set().union(*(s.index.texts(ast.IfExp, ast.If) for s in self.before.sources))
        for node in self._nodes(ast.IfExp, ast.If):
            if ast.unparse(node) in known or not has_no_effect(node.test):  # type: ignore[attr-defined]
                continue
            if isinstance(node, ast.IfExp) and ast.unparse(node.body) == ast.unparse(node.orelse):
                yield ReplaceExpression(source=self._source(node), rule=ID, why=WHY, node=node, template="{x}", parts={"x": node.orelse})
            elif isinstance(node, ast.If) and node.orelse and not self._is_elif(node) and _text(node.body) == _text(node.orelse):
                yield UnwrapStatement(source=self._source(node), rule=ID, why=WHY, node=node, branch="body")
            elif isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse and self._stands_above(node, node.body[0]):
                yield self._delete(node)

    def _is_elif(self, node: ast.If) -> bool:
        parent = self.after.parents[node]
        return isinstance(parent, ast.If) and parent.orelse == [node]

    def _stands_above(self, place: ast.If, statement: ast.stmt) -> bool:
        """Whether `statement`, a plain `y = x`, has been run right above `place`, and neither name has changed since."""
        if not isinstance(statement, ast.Assign) or not all(isinstance(n, ast.Name) for n in (*statement.targets, statement.value)):
            return False
        names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        block = next(b for _, b in ast.iter_fields(self.after.parents[place]) if isinstance(b, list) and place in b)
        for other in reversed(block[: block.index(place)]):
            if ast.unparse(other) == ast.unparse(statement):
                return True
            if any(isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Store) for n in ast.walk(other)):
                return False
        return False


def _text(block: list[ast.stmt]) -> str:
    return "\n".join(map(ast.unparse, block))


def _only_defines(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef | ast.Pass)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [(a.asname or a.name).split(".")[0] for a in statement.names]
    return [statement.name] if isinstance(statement, ast.ClassDef | ast.FunctionDef) else []
