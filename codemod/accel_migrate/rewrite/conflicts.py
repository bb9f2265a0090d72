"""Edits that cannot all be made."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from accel_migrate.edits import (
    DeleteStatement,
    Edit,
    Inner,
    RenameParameter,
    ReplaceExpression,
    ReplaceStatement,
    UnwrapStatement,
    WrapStatements,
)


class EditConflict(Exception):
    """`edit_a` and `edit_b` contradict each other."""

    def __init__(self, edit_a: Edit, edit_b: Edit) -> None:
        super().__init__(f"{_described(edit_a)} contradicts {_described(edit_b)}")
        self.edit_a = edit_a
        self.edit_b = edit_b


def _described(edit: Edit) -> str:
    nodes = targets(edit)
    place = f" at line {getattr(nodes[0], 'lineno', '?')}" if nodes else ""
    return f"{type(edit).__name__} of rule {edit.rule}{place}"


def targets(edit: Edit) -> list[ast.AST]:
    """The nodes that `edit` changes or stands next to."""
    if isinstance(edit, WrapStatements):
        return list(edit.nodes)
    if isinstance(edit, RenameParameter):
        return [edit.parameter]
    node = getattr(edit, "node", None)
    return [] if node is None else [node]


def parts(edit: Edit) -> list[ast.AST]:
    """The nodes that the template of `edit` takes in."""
    return [part.node if isinstance(part, Inner) else part for part in getattr(edit, "parts", {}).values()]


def conflicts(edits: Sequence[Edit]) -> list[EditConflict]:
    """All contradictions among the edits of one file, each pair once. Equal edits, and edits inside a deleted statement
    or a replaced expression, are none."""
    pairs = [*_rivals(edits), *_crossing_wraps(edits), *_dropped(edits)]
    return [EditConflict(first, second) for first, second in pairs]


def content(edit: Edit) -> Hashable:
    """What `edit` changes and into what: equal for edits that ask for the same change."""
    fields = ((name, value) for name, value in vars(edit).items() if name not in ("rule", "why", "source", "with_comment"))
    return type(edit), *((name, frozenset(v.items()) if isinstance(v, Mapping) else v) for name, v in fields)


_EXCLUSIVE = (ReplaceExpression, ReplaceStatement, DeleteStatement, UnwrapStatement, RenameParameter)


def _rivals(edits: Sequence[Edit]) -> Iterator[tuple[Edit, Edit]]:
    """Two different fates of one node."""
    by_node: dict[ast.AST, list[Edit]] = defaultdict(list)
    for edit in edits:
        if isinstance(edit, _EXCLUSIVE):
            by_node[targets(edit)[0]].append(edit)
    for rivals in by_node.values():
        yield from ((first, second) for first, second in combinations(rivals, 2) if content(first) != content(second))


def _crossing_wraps(edits: Sequence[Edit]) -> Iterator[tuple[Edit, Edit]]:
    """Wraps of overlapping statements neither of which holds the other."""
    wraps = [edit for edit in edits if isinstance(edit, WrapStatements)]
    for first, second in combinations(wraps, 2):
        a, b = set(first.nodes), set(second.nodes)
        if a & b and not (a <= b or b <= a):
            yield first, second


def _dropped(edits: Sequence[Edit]) -> Iterator[tuple[Edit, Edit]]:
    """Edits inside a replaced statement which its template leaves out."""
    replacements = [edit for edit in edits if isinstance(edit, ReplaceStatement)]
    if not replacements:
        return
    by_node = [(edit, node) for edit in edits for node in targets(edit)]
    deleted = {node for edit in edits if isinstance(edit, DeleteStatement) for node in ast.walk(edit.node)}
    for replacement in replacements:
        if replacement.node in deleted:
            continue
        inside = _below([replacement.node]) - {replacement.node}
        kept = _below(parts(replacement))
        seen: set[Edit] = set()
        for edit, node in by_node:
            if node in inside - kept and edit not in seen:
                seen.add(edit)
                yield replacement, edit


def _below(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    return {below for node in nodes for below in ast.walk(node)}
