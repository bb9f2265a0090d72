"""Long code in messages."""

from __future__ import annotations

import ast

from accel_migrate.quoting import quote


def test_long_code_is_cut_between_words() -> None:
    assert quote(ast.parse("first(one, two)").body[0]) == "first(one, two)"
    assert quote(ast.parse("first(one, two, three)").body[0], 16) == "first(one, two, ..."
    assert quote(ast.parse("for a in b:\n    c(a)").body[0]) == "for a in b"
