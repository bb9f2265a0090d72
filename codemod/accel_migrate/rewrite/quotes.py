"""Quotes inside f-strings: before Python 3.12 an expression there must not use the string's own."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst


def with_inner_quotes(original: cst.FormattedString, updated: cst.FormattedString) -> cst.FormattedString:
    """`updated` with the other quote in the strings which edits brought into it."""
    quote = original.start[-1]
    other = "'" if quote == '"' else '"'
    requote = _Requote(quote, other, set(_strings_below(original)))
    return updated.with_changes(parts=[part.visit(requote) for part in updated.parts])


def _strings_below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.SimpleString):
        yield node
    for child in node.children:
        yield from _strings_below(child)


class _Requote(cst.CSTTransformer):
    def __init__(self, quote: str, other: str, untouched: set[cst.CSTNode]) -> None:
        super().__init__()
        self._quote = quote
        self._other = other
        self._untouched = untouched

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        body = updated_node.value.removeprefix(updated_node.prefix)
        plain = body.startswith(self._quote) and not body.startswith(self._quote * 3)
        if original_node in self._untouched or not plain or self._other in body or "\\" in body:
            return updated_node
        return updated_node.with_changes(value=f"{updated_node.prefix}{self._other}{body[1:-1]}{self._other}")
