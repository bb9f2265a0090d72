"""Comma-separated lists (arguments, parameters, imported names): insert and remove as the list is laid out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

Nodes = list[Any]
"""libcst nodes with a `comma`: `Arg`, `Param`, `ParamSlash`, `ParamStar`, `ImportAlias`."""
_SPACE = cst.SimpleWhitespace(" ")
_NOTHING = cst.SimpleWhitespace("")
_AFTER = {cst.Arg: "whitespace_after_arg", cst.Param: "whitespace_after_param", cst.ParamSlash: "whitespace_after"}


def inserted(nodes: Sequence[Any], index: int, new: Any, opening: cst.BaseParenthesizableWhitespace) -> Nodes:
    """`nodes` with `new` at `index`; `opening` is the whitespace between the bracket and the first node."""
    if not nodes:
        return [new]
    gap = _usual_gap(nodes, index, opening)
    if index < len(nodes):
        return [*nodes[:index], new.with_changes(comma=cst.Comma(whitespace_after=gap)), *nodes[index:]]
    last = nodes[-1]
    closing = _closing(last)
    if _has_comment(closing):
        gap = closing.with_changes(last_line=_last_line(gap, opening, closing))
    before = _with_closing(last, None, _NOTHING).with_changes(comma=cst.Comma(whitespace_after=gap))
    return [*nodes[:-1], before, _with_closing(new, _comma(last), _without_comment(closing))]


def removed(nodes: Sequence[Any], index: int) -> Nodes:
    """`nodes` without the one at `index`."""
    rest = [*nodes[:index], *nodes[index + 1 :]]
    if index == 0 or not rest:
        return rest
    before, gone = nodes[index - 1], nodes[index]
    gap = before.comma.whitespace_after
    if index == len(nodes) - 1:
        closing = _without_comment(_closing(gone))
        if _has_comment(gap):
            last_line = closing.last_line if isinstance(closing, cst.ParenthesizedWhitespace) else gap.last_line
            closing = gap.with_changes(last_line=last_line)
        rest[-1] = _with_closing(before, _comma(gone), closing)
    elif _breaks(gone.comma.whitespace_after) and not _breaks(gap):
        rest[index - 1] = before.with_changes(comma=gone.comma)
    return rest


def _usual_gap(
    nodes: Sequence[Any], index: int, opening: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """What the list puts between two nodes near `index`."""
    if len(nodes) > 1:
        neighbour = nodes[min(max(index - 1, 0), len(nodes) - 2)]
        return _without_comment(neighbour.comma.whitespace_after)
    return _without_comment(opening) if _breaks(opening) else _SPACE


def _last_line(gap: Any, opening: Any, closing: Any) -> cst.SimpleWhitespace:
    for whitespace in (gap, opening, closing):
        if isinstance(whitespace, cst.ParenthesizedWhitespace):
            return whitespace.last_line
    raise AssertionError("closing whitespace with a comment spans lines")


def _comma(node: Any) -> cst.Comma | None:
    return node.comma if isinstance(node.comma, cst.Comma) else None


def _closing(node: Any) -> Any:
    """The whitespace between the last node, or its trailing comma, and the bracket."""
    comma = _comma(node)
    if comma:
        return comma.whitespace_after
    return getattr(node, _AFTER[type(node)]) if type(node) in _AFTER else _NOTHING


def _with_closing(node: Any, comma: cst.Comma | None, closing: Any) -> Any:
    """`node` as the last one of its list."""
    if comma:
        return node.with_changes(comma=comma.with_changes(whitespace_after=closing))
    changes: dict[str, Any] = {"comma": cst.MaybeSentinel.DEFAULT}
    if type(node) in _AFTER:
        changes[_AFTER[type(node)]] = closing
    return node.with_changes(**changes)


def _breaks(whitespace: cst.BaseParenthesizableWhitespace) -> bool:
    return isinstance(whitespace, cst.ParenthesizedWhitespace)


def _has_comment(whitespace: Any) -> bool:
    return isinstance(whitespace, cst.ParenthesizedWhitespace) and (
        whitespace.first_line.comment is not None or any(line.comment for line in whitespace.empty_lines)
    )


def _without_comment(whitespace: Any) -> Any:
    if not isinstance(whitespace, cst.ParenthesizedWhitespace):
        return whitespace
    return whitespace.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=())
