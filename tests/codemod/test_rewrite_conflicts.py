"""Edits that cannot all be made, and edits that only look so."""

from __future__ import annotations

import ast

import pytest

from accel_migrate.errors import UserError
from accel_migrate.rewrite import EditConflict, conflicts, rewrite
from codemod.editing import Edits, Script, edited

REFUSED: dict[str, tuple[str, Edits]] = {
    "two replacements of an expression": ("a\n", lambda s: [s.replace("a", "b"), s.replace("a", "c")]),
    "two replacements of a statement": ("a\n", lambda s: [s.replace_stmt("a", "b"), s.replace_stmt("a", "c")]),
    "a replaced and deleted statement": ("a\n", lambda s: [s.replace_stmt("a", "b"), s.delete("a")]),
    "an unwrapped and deleted statement": ("if a:\n    b\n", lambda s: [s.unwrap("if a:"), s.delete("if a:")]),
    "an edit in a replaced statement which no part takes in": (
        "a(b, c)\n",
        lambda s: [s.replace_stmt("a(b, c)", "x({b})", b="b"), s.replace("c", "C")],
    ),
    "an insert in a replaced statement": (
        "if a:\n    b\n",
        lambda s: [s.replace_stmt("if a:", "c"), s.before("b", "d")],
    ),
    "crossing wraps": ("a\nb\nc\n", lambda s: [s.wrap("if m:", "a", "b"), s.wrap("if n:", "b", "c")]),
    "two names of a parameter": (
        "def f(a): pass\n",
        lambda s: [s.rename_parameter("a", "b"), s.rename_parameter("a", "c")],
    ),
}

FINE: dict[str, tuple[str, Edits, str]] = {
    "equal replacements": (
        "f(a)\n",
        lambda s: [s.replace("f(a)", "g({a})", a="a"), s.replace("f(a)", "g({a})", a="a")],
        "g(a)\n",
    ),
    "an edit in a replaced statement which a part takes in": (
        "a(b, c)\n",
        lambda s: [s.replace_stmt("a(b, c)", "x({b})", b="b"), s.replace("b", "B")],
        "x(B)\n",
    ),
    "an edit in a replaced expression goes with it": (
        "x.to(device)\n",
        lambda s: [s.replace("x.to(device)", "{x}", x="x"), s.replace("device", "acc.device")],
        "x\n",
    ),
    "an edit in a statement both replaced inside a deleted one": (
        "if a:\n    b(c)\nd\n",
        lambda s: [s.delete("if a:"), s.replace_stmt("b(c)", "x"), s.replace("c", "C")],
        "d\n",
    ),
    "inserts next to a replaced statement": (
        "a\n",
        lambda s: [s.replace_stmt("a", "b"), s.before("a", "p"), s.after("a", "q")],
        "p\nb\nq\n",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_refuses(case: tuple[str, Edits]) -> None:
    before, make = case
    script = Script(before)
    edits = make(script)
    (found,) = conflicts(edits)
    assert {found.edit_a, found.edit_b} == set(edits)
    with pytest.raises(EditConflict, match="at line"):
        rewrite(script.source, edits)


@pytest.mark.parametrize("case", FINE.values(), ids=FINE.keys())
def test_allows(case: tuple[str, Edits, str]) -> None:
    before, edits, after = case
    assert edited(before, edits) == after


BUGS: dict[str, tuple[str, Edits]] = {
    "a statement as an expression": ("x = a\n", lambda s: [s.replace("a", "b = 1")]),
    "half a statement": ("a\n", lambda s: [s.replace_stmt("a", "x(")]),
    "an expression where only a name may stand": ("a = b\n", lambda s: [s.replace("a", "1")]),
    "a starred expression on its own": ("f(*a)\n", lambda s: [s.replace("f", "{a}", a=_first_argument(s))]),
}


def _first_argument(script: Script) -> ast.expr:
    return script.expr("f(*a)").args[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", BUGS.values(), ids=BUGS.keys())
def test_an_edit_that_makes_no_sense_is_our_bug(case: tuple[str, Edits]) -> None:
    with pytest.raises(AssertionError):
        edited(*case)


def test_a_file_that_libcst_cannot_read_is_named() -> None:
    with pytest.raises(UserError, match=r"train\.py: libcst cannot read"):
        edited("class A(B, m=c, *d, **e): pass\nx\n", lambda s: [s.replace("x", "y")])


def test_no_edits_import_nothing_and_change_nothing() -> None:
    script = Script("a  ;b\n\n\n")
    assert rewrite(script.source, []) == script.source.text
