"""A block of statements as a flat list, for editing: one item per statement, with the comments that belong to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import libcst as cst

Lines = tuple[cst.EmptyLine, ...]
Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
_NO_LINES: Lines = ()


@dataclass(frozen=True)
class Item:
    """One statement of a block."""

    statement: cst.BaseSmallStatement | cst.BaseCompoundStatement
    leading: Lines = ()
    """Blank lines and comments above; () where `joined`."""
    trailing: cst.TrailingWhitespace | None = None
    """What follows the last simple statement of a line, comment included."""
    joined: bool = False
    """Whether it stands on the same line as the item before, after a semicolon."""


def items_of(lines: Iterable[cst.CSTNode]) -> list[Item]:
    """The items of the lines of a block."""
    return [item for line in lines for item in _items_of_line(line)]


def _items_of_line(line: cst.CSTNode) -> list[Item]:
    if isinstance(line, cst.BaseCompoundStatement):
        return [Item(line, tuple(line.leading_lines))]  # type: ignore[attr-defined]
    assert isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite)
    leading = tuple(line.leading_lines) if isinstance(line, cst.SimpleStatementLine) else _NO_LINES
    items = [Item(small, joined=True) for small in line.body]
    items[0] = replace(items[0], leading=leading, joined=False)
    items[-1] = replace(items[-1], trailing=line.trailing_whitespace)
    return items


def lines_of(items: Sequence[Item]) -> list[Line]:
    """The lines that `items` make up, in order."""
    runs: list[list[Item]] = []
    for item in items:
        if item.joined and runs and isinstance(runs[-1][-1].statement, cst.BaseSmallStatement):
            runs[-1].append(item)
        else:
            runs.append([item])
    return [_line_of(run) for run in runs]


def _line_of(run: Sequence[Item]) -> Line:
    first = run[0]
    if isinstance(first.statement, cst.BaseCompoundStatement):
        return first.statement.with_changes(leading_lines=first.leading)
    trailing = next((item.trailing for item in reversed(run) if item.trailing), cst.TrailingWhitespace())
    return cst.SimpleStatementLine(_with_semicolons(run), first.leading, trailing)


def _with_semicolons(run: Sequence[Item]) -> list[cst.BaseSmallStatement]:
    """The last statement keeps a semicolon only if it ended its line before, too."""
    smalls: list[cst.BaseSmallStatement] = [item.statement for item in run]  # type: ignore[misc]
    if run[-1].trailing is None:
        smalls[-1] = smalls[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return smalls


def is_blank(line: cst.EmptyLine) -> bool:
    """Whether `line` carries no comment."""
    return line.comment is None


def blanks_of(lines: Lines) -> Lines:
    """The blank lines which `lines` begin with."""
    return tuple(takewhile(is_blank, lines))


def merged(above: Lines, below: Lines) -> Lines:
    """The lines left over above a deleted statement, put on top of those of the next one: comments all stay, blank lines
    do not pile up."""
    comments = [index for index, line in enumerate(above) if not is_blank(line)]
    kept = comments[-1] + 1 if comments else 0
    left, own = above[kept:], blanks_of(below)
    return above[:kept] + max(left, own, key=len) + below[len(own) :]


def without_first_blanks(lines: Lines) -> Lines:
    """`lines` from the first comment on."""
    return lines[len(blanks_of(lines)) :]


def split_at_comments(lines: Lines) -> tuple[Lines, Lines]:
    """What stands above the comment lines directly on top of a statement, and those comment lines."""
    attached = sum(1 for _ in takewhile(lambda line: not is_blank(line), reversed(lines)))
    return lines[: len(lines) - attached], lines[len(lines) - attached :]


def comments_only(lines: Lines) -> Lines:
    """`lines` up to the last comment, () if there is none."""
    return merged(lines, ())[: _after_last_comment(lines)]


def _after_last_comment(lines: Lines) -> int:
    return max((index + 1 for index, line in enumerate(lines) if not is_blank(line)), default=0)


def indentable(item: Item) -> Item:
    """`item` fit to be indented: at the top level an empty line looks like an indented one to libcst."""
    leading = tuple(line.visit(_EMPTY) for line in item.leading)
    return replace(item, leading=leading, statement=item.statement.visit(_EMPTY))  # type: ignore[arg-type]


class _Empty(cst.CSTTransformer):
    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> bool:
        return False

    def leave_EmptyLine(self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine) -> cst.EmptyLine:
        bare = updated_node.comment is None and not updated_node.whitespace.value
        return updated_node.with_changes(indent=False) if bare else updated_node


_EMPTY = _Empty()


def with_indent(statement: cst.CSTNode, indent: str | None) -> cst.CSTNode:
    """A new statement whose own blocks are indented as the block around it is."""
    return statement if indent is None else statement.visit(_Indent(indent))  # type: ignore[return-value]


class _Indent(cst.CSTTransformer):
    def __init__(self, indent: str) -> None:
        super().__init__()
        self._indent = indent

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock) -> cst.BaseSuite:
        return updated_node.with_changes(indent=self._indent)
