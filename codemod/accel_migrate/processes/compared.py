"""What each step of the clean-up asks of the program before and after the migration."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from accel_migrate.edits import DeleteStatement
from accel_migrate.processes.uses import Uses
from accel_migrate.source import Source

ID = "hand-made-ddp"
WHY = "nothing reads it any more"


@dataclass(eq=False)
class Compared:
    """The program before and after the migration."""

    before: Uses
    after: Uses

    def _source(self, node: ast.AST) -> Source:
        return self.after.scope(node).source

    def _nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (n for kind in kinds for n in self._by_kind.get(kind, ()))

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found = defaultdict(list)
        for source in self.after.sources:
            for node in source.index.nodes:
                found[type(node)].append(node)
        return found

    @cached_property
    def _definitions(self) -> Counter[str]:
        return Counter(n.name for n in self._nodes(ast.FunctionDef, ast.ClassDef))  # type: ignore[attr-defined]

    def _delete(self, statement: ast.stmt) -> DeleteStatement:
        return DeleteStatement(source=self._source(statement), rule=ID, why=WHY, node=statement, with_comment=self._stands_alone(statement))

    def _stands_alone(self, statement: ast.stmt) -> bool:
        """Whether the comment above `statement` does not head what follows too."""
        block = next(b for _, b in ast.iter_fields(self.after.parents[statement]) if isinstance(b, list) and statement in b)
        place = block.index(statement)
        return place + 1 == len(block) or block[place + 1].lineno - (statement.end_lineno or 0) > 1

    def _is_plain(self, node: ast.AST) -> bool:
        """Whether `node` is a function without decorators whose name no other definition has."""
        return self._definitions[node.name] == 1 and not node.decorator_list  # type: ignore[attr-defined]


def called_name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
