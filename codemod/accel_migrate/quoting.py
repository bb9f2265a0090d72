"""Code of the script as messages show it: on one line, and cut between words where it is long."""

from __future__ import annotations

import ast


def quote(node: ast.AST, limit: int = 60) -> str:
    """`node` as code of about `limit` characters at most; what is left out is shown as ` ...`."""
    first, _, more = ast.unparse(node).partition("\n")
    if len(first) <= limit:
        return first.rstrip(":") if more else first
    head = first[: limit + 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else first[:limit]} ..."
