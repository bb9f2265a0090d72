"""What else an edit inside an f-string calls for.

Before Python 3.12 an expression there must not use the string's own quote. `f"{x=}"` prints its expression's text, which
must stay what it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from accel_migrate.rewrite.precedence import code


def adapted_string(original: cst.FormattedString, updated: cst.FormattedString) -> cst.FormattedString:
    """`updated` with the other quote in the strings which edits brought into it, and printing the expressions of
    `original` where it names them."""
    quote = original.start[-1]
    other = "'" if quote == '"' else '"'
    requote = _Requote(quote, other, set(_strings_below(original)))
    pairs = zip(original.parts, updated.parts, strict=True)
    parts = [part for old, new in pairs for part in _with_name(old, new.visit(requote), quote)]
    return updated.with_changes(parts=parts)


def _with_name(old: cst.BaseFormattedStringContent, new: Any, quote: str) -> list[cst.BaseFormattedStringContent]:
    """`{x=}` whose `x` was edited becomes `x={edited!r}`."""
    if not isinstance(old, cst.FormattedStringExpression) or old.equal is None:
        return [new]
    text = "".join(map(code, (old.whitespace_before_expression, old.expression, old.equal)))
    if code(old.expression) == code(new.expression) or quote in text or "\n" in text:
        return [new]
    literal = cst.FormattedStringText(text.replace("{", "{{").replace("}", "}}"))
    conversion = new.conversion or (None if new.format_spec is not None else "r")
    blank = cst.SimpleWhitespace("")
    plain = new.with_changes(equal=None, conversion=conversion, whitespace_before_expression=blank)
    return [literal, plain]


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
