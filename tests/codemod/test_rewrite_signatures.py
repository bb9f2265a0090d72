"""Arguments and parameters added, removed and renamed in the layout of their list."""

from __future__ import annotations

import pytest

from codemod.editing import Edits, edited

ADD_ARGUMENT: dict[str, tuple[str, Edits, str]] = {
    "to none": ("f()\n", lambda s: [s.add_argument("f()", "a")], "f(a)\n"),
    "a keyword at the end": ("f(a, b=1)\n", lambda s: [s.add_argument("f(a, b=1)", "c", "k")], "f(a, b=1, k=c)\n"),
    "a positional one after the last positional one": (
        "f(a, b=1)\n",
        lambda s: [s.add_argument("f(a, b=1)", "c"), s.add_argument("f(a, b=1)", "d")],
        "f(a, c, d, b=1)\n",
    ),
    "before stars": (
        "f(a, *b, **c)\n",
        lambda s: [s.add_argument("f(a, *b, **c)", "p"), s.add_argument("f(a, *b, **c)", "q", "k")],
        "f(a, p, *b, k=q, **c)\n",
    ),
    "with a trailing comma, one on a line": (
        "f(\n    a,\n    b,  # why\n)\n",
        lambda s: [s.add_argument("f(a, b)", "c")],
        "f(\n    a,\n    b,  # why\n    c,\n)\n",
    ),
    "without a trailing comma, one on a line": (
        "f(\n    a,\n    b  # why\n)\n",
        lambda s: [s.add_argument("f(a, b)", "c")],
        "f(\n    a,\n    b,  # why\n    c\n)\n",
    ),
    "to a single one on its own line": (
        "if x:\n    f(\n        a\n    )\n",
        lambda s: [s.add_argument("f(a)", "c", "k")],
        "if x:\n    f(\n        a,\n        k=c\n    )\n",
    ),
    "to several on a line of their own": (
        "f(\n    a, b\n)\n",
        lambda s: [s.add_argument("f(a, b)", "c")],
        "f(\n    a, b, c\n)\n",
    ),
    "aligned": (
        "f(a,  # why\n  b)\n",
        lambda s: [s.add_argument("f(a, b)", "c", "k")],
        "f(a,  # why\n  b,\n  k=c)\n",
    ),
    "to a bare generator": (
        "f(x for x in y)\n",
        lambda s: [s.add_argument("f(x for x in y)", "0", "start")],
        "f((x for x in y), start=0)\n",
    ),
    "to class headers": (
        "class A: pass\nclass B(\n    C,\n    m=D,\n):\n    pass\n",
        lambda s: [
            s.add_base("class A:", "P"),
            s.add_base("class A:", "m", "k"),
            s.add_base("class B(C, m=D):", "Q"),
            s.add_base("class B(C, m=D):", "r", "k"),
        ],
        "class A(P, k=m): pass\nclass B(\n    C,\n    Q,\n    m=D,\n    k=r,\n):\n    pass\n",
    ),
    "the same keyword twice is one": (
        "f(a)\n",
        lambda s: [s.add_argument("f(a)", "c", "k"), s.add_argument("f(a)", "c", "k")],
        "f(a, k=c)\n",
    ),
}

REMOVE_ARGUMENT: dict[str, tuple[str, Edits, str]] = {
    "the only one": ("f( a )\n", lambda s: [s.remove_argument("f(a)", "a")], "f()\n"),
    "the first": ("f(a, b)\n", lambda s: [s.remove_argument("f(a, b)", "a")], "f(b)\n"),
    "the last": ("f(a, b)\n", lambda s: [s.remove_argument("f(a, b)", "b")], "f(a)\n"),
    "a keyword": ("f(a, k=b, *c)\n", lambda s: [s.remove_argument("f(a, k=b, *c)", "b")], "f(a, *c)\n"),
    "all, and one more": (
        "f(\n    a,\n    b,\n)\n",
        lambda s: [s.remove_argument("f(a, b)", "a"), s.remove_argument("f(a, b)", "b"), s.add_argument("f(a, b)", "c")],
        "f(c)\n",
    ),
    "the last with a trailing comma, comments of others stay": (
        "f(\n    a,  # one\n    b,  # two\n)\n",
        lambda s: [s.remove_argument("f(a, b)", "b")],
        "f(\n    a,  # one\n)\n",
    ),
    "the last of aligned ones with a comment": (
        "f(a,  # one\n  b)\n",
        lambda s: [s.remove_argument("f(a, b)", "b")],
        "f(a  # one\n  )\n",
    ),
    "the last on its line": (
        "f(a, b,\n  c)\n",
        lambda s: [s.remove_argument("f(a, b, c)", "b")],
        "f(a,\n  c)\n",
    ),
    "beside an edit of another": (
        "f(a, d, k=b)\n",
        lambda s: [s.remove_argument("f(a, d, k=b)", "d"), s.replace("b", "B"), s.replace("d", "D")],
        "f(a, k=B)\n",
    ),
    "from a call that is replaced around it": (
        "x = f(a, d)\n",
        lambda s: [s.remove_argument("f(a, d)", "d"), s.replace("f(a, d)", "g({c})", c="f(a, d)")],
        "x = g(f(a))\n",
    ),
}

PARAMETER: dict[str, tuple[str, Edits, str]] = {
    "to none": ("def f(): pass\n", lambda s: [s.add_parameter("f", "a")], "def f(a): pass\n"),
    "before defaults": ("def f(a, b=1): pass\n", lambda s: [s.add_parameter("f", "c")], "def f(a, c, b=1): pass\n"),
    "before the star": (
        "def f(self, *, k): pass\n",
        lambda s: [s.add_parameter("f", "c"), s.add_parameter("f", "d", "None")],
        "def f(self, c, d=None, *, k): pass\n",
    ),
    "between starred ones": (
        "def f(*a, **k): pass\n",
        lambda s: [s.add_parameter("f", "c: T")],
        "def f(*a, c: T, **k): pass\n",
    ),
    "behind those given by name": (
        "def f(a, *rest, b=1): pass\n",
        lambda s: [s.add_parameter("f", "c")],
        "def f(a, *rest, b=1, c): pass\n",
    ),
    "after a slash": ("def f(a, /): pass\n", lambda s: [s.add_parameter("f", "c")], "def f(a, /, c): pass\n"),
    "before a slash where defaults want it": (
        "def f(a, b=1, /): pass\n",
        lambda s: [s.add_parameter("f", "c")],
        "def f(a, c, b=1, /): pass\n",
    ),
    "one on a line": (
        "def f(\n    a,  # one\n    b: int = 1,\n) -> x:\n    pass\n",
        lambda s: [s.add_parameter("f", "c", "None"), s.add_parameter("f", "d")],
        "def f(\n    a,  # one\n    d,\n    b: int = 1,\n    c=None,\n) -> x:\n    pass\n",
    ),
    "asked for twice": (
        "async def f(a): pass\n",
        lambda s: [s.add_parameter("f", "c"), s.add_parameter("f", "c")],
        "async def f(a, c): pass\n",
    ),
    "renamed": (
        "def f(a, device: torch.device = 'cuda', *, b=1): return lambda device: 0\n",
        lambda s: [s.rename_parameter("device", "acc"), s.rename_parameter("device @1", "x")],
        "def f(a, acc, *, b=1): return lambda x: 0\n",
    ),
    "renamed behind defaults": (
        "def f(a=1, device: str='cuda', **k): pass\n",
        lambda s: [s.rename_parameter("device", "acc")],
        "def f(a=1, acc=None, **k): pass\n",
    ),
    "beside statements in the same block": (
        "a; \ndef f(): pass\nb;\n",
        lambda s: [s.add_parameter("f", "c"), s.delete("b")],
        "a; \ndef f(c): pass\n",
    ),
}

ALL = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("add argument", ADD_ARGUMENT),
        ("remove argument", REMOVE_ARGUMENT),
        ("parameter", PARAMETER),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL.keys())
def test_edits_signatures(case: tuple[str, Edits, str]) -> None:
    before, edits, after = case
    assert edited(before, edits) == after
