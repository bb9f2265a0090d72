"""Edits of whole statements, applied to the block that holds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from accel_migrate.edits import (
    DeleteStatement,
    InsertAfter,
    InsertBefore,
    ReplaceStatement,
    UnwrapStatement,
    WrapStatements,
)
from accel_migrate.rewrite import templates
from accel_migrate.rewrite.blocks import (
    Item,
    Lines,
    blanks_of,
    comments_only,
    indentable,
    items_of,
    lines_of,
    merged,
    split_at_comments,
    with_indent,
    without_first_blanks,
)

_DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
Templated = InsertAfter | InsertBefore | ReplaceStatement | WrapStatements
FillerOf = Callable[[Templated], templates.Filler]


@dataclass
class StatementEdits:
    """What happens to one statement."""

    before: list[InsertBefore] = field(default_factory=list)
    after: list[InsertAfter] = field(default_factory=list)
    replacement: ReplaceStatement | None = None
    deleted: DeleteStatement | None = None
    unwrapped: UnwrapStatement | None = None


@dataclass(frozen=True)
class Wrap:
    """Statements, by their first and last libcst node in the original, that go under a header."""

    edit: WrapStatements
    first: cst.CSTNode
    last: cst.CSTNode


@dataclass(frozen=True)
class _Keyed:
    """An item with the place it has among the original ones: index, then before (0), in place of (1) or after it (2)."""

    index: int
    role: int
    item: Item


class BlockEditor:
    """Rewrites the lines of one block."""

    def __init__(
        self, edits: dict[cst.CSTNode, StatementEdits], wraps: Sequence[Wrap], fillers: FillerOf, default_indent: str
    ) -> None:
        self._edits = edits
        self._wraps = wraps
        self._fillers = fillers
        self._default_indent = default_indent
        self.emptied: set[cst.CSTNode] = set()
        """The `pass` statements which stand for a whole deleted block."""

    def rewrite(
        self, original: Sequence[cst.CSTNode], updated: Sequence[cst.CSTNode], indent: str | None, at_top: bool
    ) -> tuple[list[Item], Lines]:
        """The new items of a block and the comment lines left over at its end."""
        self._indent, self._at_top = indent, at_top
        self._out: list[_Keyed] = []
        self._pending: Lines | None = None
        self._line_lost_head = False
        self._line_ended = False
        nodes = [item.statement for item in items_of(original)]
        for index, (node, item) in enumerate(zip(nodes, items_of(updated), strict=True)):
            self._place(index, node, item)
        self._wrap(nodes)
        return [keyed.item for keyed in self._out], comments_only(self._pending or ())

    def _place(self, index: int, node: cst.CSTNode, item: Item) -> None:
        edits = self._edits.get(node, StatementEdits())
        if item.joined and self._line_lost_head:
            item = replace(item, joined=False)
        self._line_lost_head = edits.deleted is not None and not item.joined
        if not item.joined:
            item = self._take_pending(item)
        if item.joined and self._line_ended:
            item = replace(item, joined=False)
        if self._out and self._out[-1].role == 2:
            item = self._spaced(replace(item, joined=False))
        self._line_ended = False
        for edit in edits.before:
            item = self._insert_before(index, edit, item)
        if edits.deleted:
            self._delete(item, edits.deleted.with_comment)
        elif edits.replacement:
            self._emit(index, 1, self._replaced(edits.replacement, item))
        elif edits.unwrapped:
            self._unwrap(index, item, edits.unwrapped.branch)
        else:
            self._emit(index, 1, [item])
        for after in edits.after:
            self._insert_after(index, after, item)

    def _emit(self, index: int, role: int, items: Sequence[Item]) -> None:
        self._out += [_Keyed(index, role, item) for item in items]

    def _take_pending(self, item: Item) -> Item:
        """`item` below the lines left over from a deleted statement."""
        if self._pending is None:
            return item
        pending, self._pending = self._pending, None
        if not self._out and not comments_only(pending):  # a block keeps the blank lines at its top
            return replace(item, leading=pending + without_first_blanks(item.leading))
        return replace(item, leading=merged(pending, item.leading))

    def _spaced(self, item: Item) -> Item:
        """A definition that now follows another statement gets the blank lines of PEP 8."""
        if not isinstance(item.statement, _DEFINITIONS):
            return item
        needed = 2 if self._at_top else 1
        missing = needed - len(blanks_of(item.leading))
        return replace(item, leading=(cst.EmptyLine(indent=False),) * missing + item.leading)

    def _new_items(self, edit: InsertAfter | InsertBefore | ReplaceStatement) -> list[Item]:
        indent = self._indent if self._indent is not None else self._default_indent
        made = templates.statements(edit.template, self._fillers(edit), indent)
        return [indentable(item) for item in items_of(with_indent(statement, self._indent) for statement in made)]

    def _insert_before(self, index: int, edit: InsertBefore, item: Item) -> Item:
        above, attached = split_at_comments(item.leading)
        new = self._new_items(edit)
        if not new:
            return item
        new[0] = replace(new[0], leading=merged(above, new[0].leading))
        self._emit(index, 0, new)
        return self._spaced(replace(item, leading=attached, joined=False))

    def _insert_after(self, index: int, edit: InsertAfter, item: Item) -> None:
        new = self._new_items(edit)
        if not new:
            return
        new[0] = self._take_pending(new[0])
        if isinstance(item.statement, _DEFINITIONS):
            blank = (cst.EmptyLine(indent=False),) * (2 if self._at_top else 1)
            new[0] = replace(new[0], leading=merged(blank, new[0].leading))
        self._emit(index, 2, new)

    def _delete(self, item: Item, with_comment: bool) -> None:
        if item.joined:
            self._keep_comment(item)
        else:
            self._pending = split_at_comments(item.leading)[0] if with_comment else item.leading

    def _keep_comment(self, item: Item) -> None:
        """The comment behind `a; b` stays with `a` when `b` goes."""
        last = self._out[-1]
        if item.trailing and not last.item.trailing and isinstance(last.item.statement, cst.BaseSmallStatement):
            statement = last.item.statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            self._out[-1] = replace(last, item=replace(last.item, statement=statement, trailing=item.trailing))

    def _replaced(self, edit: ReplaceStatement, item: Item) -> list[Item]:
        new = self._new_items(edit)
        first = new[0]
        if len(new) == 1 and isinstance(first.statement, cst.BaseSmallStatement):
            trailing = item.trailing if item.trailing or item.joined else first.trailing
            return [replace(first, leading=item.leading + first.leading, trailing=trailing, joined=item.joined)]
        self._line_ended = True
        new[0] = replace(first, leading=item.leading + first.leading)
        return _with_comment(new, item.trailing)

    def _unwrap(self, index: int, item: Item, branch: str) -> None:
        rest = item.statement.orelse if branch == "orelse" else None  # type: ignore[union-attr]
        if branch == "orelse" and not isinstance(rest, cst.Else):
            self._unwrap_elif(index, item, rest)
            return
        body = (rest or item.statement).body  # type: ignore[union-attr]
        inner = items_of([body] if isinstance(body, cst.SimpleStatementSuite) else body.body)
        footer = tuple(getattr(body, "footer", ()))
        if inner[0].statement in self.emptied:
            self._pending = item.leading + comments_only(inner[0].leading + footer)
            return
        inner[0] = replace(inner[0], leading=item.leading + without_first_blanks(inner[0].leading))
        self._emit(index, 1, inner)
        self._pending = comments_only(footer) or None

    def _unwrap_elif(self, index: int, item: Item, rest: cst.If | None) -> None:
        """What follows an `if` that goes with its own branch: an `elif` becomes the `if`."""
        if rest is None:
            self._pending = item.leading
        else:
            leading = item.leading + without_first_blanks(tuple(rest.leading_lines))
            self._emit(index, 1, [replace(item, statement=rest.with_changes(leading_lines=()), leading=leading)])

    def _wrap(self, nodes: Sequence[cst.CSTNode]) -> None:
        place = {node: index for index, node in enumerate(nodes)}
        mine = [wrap for wrap in self._wraps if wrap.first in place]
        innermost_first = sorted(reversed(mine), key=lambda wrap: place[wrap.last] - place[wrap.first])
        for wrap in innermost_first:
            self._wrap_range(wrap.edit, place[wrap.first], place[wrap.last])

    def _wrap_range(self, edit: WrapStatements, first: int, last: int) -> None:
        inside = [n for n, keyed in enumerate(self._out) if (first, 1) <= (keyed.index, keyed.role) <= (last, 1)]
        if not inside:
            return
        start, stop = inside[0], inside[-1] + 1
        items = [indentable(keyed.item) for keyed in self._out[start:stop]]
        leading = items[0].leading
        items[0] = replace(items[0], leading=(), joined=False)
        header = templates.header(edit.header, self._fillers(edit))
        body = cst.IndentedBlock(lines_of(items), indent=self._indent)
        wrapped = _Keyed(first, 1, Item(header.with_changes(body=body), leading))
        rest = self._out[stop:]
        if rest and rest[0].item.joined:
            rest[0] = replace(rest[0], item=replace(rest[0].item, joined=False))
        self._out[start:] = [wrapped, *rest]


def _with_comment(items: list[Item], trailing: cst.TrailingWhitespace | None) -> list[Item]:
    """The comment behind a replaced statement goes behind the first new one, or above it where that has a body."""
    if trailing is None or trailing.comment is None:
        return items
    first = items[0]
    if isinstance(first.statement, cst.BaseSmallStatement):
        return [replace(first, trailing=trailing), *items[1:]]
    comment = cst.EmptyLine(comment=trailing.comment)
    return [replace(first, leading=(*first.leading, comment)), *items[1:]]
