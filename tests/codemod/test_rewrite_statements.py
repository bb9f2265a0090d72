"""Whole statements deleted, inserted, replaced, wrapped and unwrapped."""

from __future__ import annotations

import pytest

from codemod.editing import Edits, edited

DELETE: dict[str, tuple[str, Edits, str]] = {
    "comments above stay, the one behind goes": (
        "a\n# about b\nb  # behind\nc\n",
        lambda s: [s.delete("b")],
        "a\n# about b\nc\n",
    ),
    "blank lines do not pile up": (
        "a\n\nb\n\nc\n",
        lambda s: [s.delete("b")],
        "a\n\nc\n",
    ),
    "paragraphs stay apart": (
        "a\n\nb\nc\n\nd\ne\n",
        lambda s: [s.delete("b"), s.delete("e")],
        "a\n\nc\n\nd\n",
    ),
    "a whole paragraph": (
        "a\n\nb\nc\n\nd\n",
        lambda s: [s.delete("b"), s.delete("c")],
        "a\n\nd\n",
    ),
    "no blank line is left at the top of a block": (
        "def f():\n    a\n\n    b\n",
        lambda s: [s.delete("a")],
        "def f():\n    b\n",
    ),
    "the first statement of a file": (
        "a\n\nb\n",
        lambda s: [s.delete("a")],
        "b\n",
    ),
    "two blank lines between functions stay": (
        "import a\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n",
        lambda s: [s.delete("def f():")],
        "import a\n\n\ndef g():\n    pass\n",
    ),
    "comments at the end of a block stay in it": (
        "if a:\n    b\n    # about c\n    c\nd\n",
        lambda s: [s.delete("c")],
        "if a:\n    b\n    # about c\nd\n",
    ),
    "an emptied block gets pass below its comments": (
        "for x in y:\n    # about a\n    a\n    b\nc\n",
        lambda s: [s.delete("a"), s.delete("b")],
        "for x in y:\n    # about a\n    pass\nc\n",
    ),
    "an emptied one-line suite gets pass": (
        "if a: b; c\nelse: d\n",
        lambda s: [s.delete("b"), s.delete("c"), s.delete("d")],
        "if a: pass\nelse: pass\n",
    ),
    "one of several on a line": (
        "z\na; b; c  # why\n",
        lambda s: [s.delete("b")],
        "z\na; c  # why\n",
    ),
    "the first on a line": (
        "z\n# above\na; b; c  # why\n",
        lambda s: [s.delete("a")],
        "z\n# above\nb; c  # why\n",
    ),
    "the last on a line": (
        "z\na; b; c  # why\ny;\n",
        lambda s: [s.delete("c")],
        "z\na; b  # why\ny;\n",
    ),
    "the first two on a line": (
        "z\na; b; c\n",
        lambda s: [s.delete("a"), s.delete("b")],
        "z\nc\n",
    ),
    "an elif branch": (
        "if a:\n    b\nelif c:\n    d\n",
        lambda s: [s.delete("if c:")],
        "if a:\n    b\n",
    ),
    "all statements of a file": (
        "# header\n\na\n# c\nb\n",
        lambda s: [s.delete("a"), s.delete("b")],
        "# header\n\n# c\n",
    ),
    "a decorated function": (
        "a\n\n\n# deco\n@d\ndef f(): pass\nb\n",
        lambda s: [s.delete("@d")],
        "a\n\n\n# deco\nb\n",
    ),
    "edits inside a deleted statement go with it": (
        "a\nwith b:\n    c\n",
        lambda s: [s.delete("with b:"), s.replace("c", "C"), s.delete("c"), s.before("c", "x")],
        "a\n",
    ),
    "without a newline at the end": (
        "a\nb",
        lambda s: [s.delete("b")],
        "a",
    ),
    "deleted twice is deleted": (
        "a\nb\n",
        lambda s: [s.delete("b"), s.delete("b")],
        "a\n",
    ),
}

INSERT: dict[str, tuple[str, Edits, str]] = {
    "before, above the comments of the statement and below its blank lines": (
        "a\n\n# loop\nfor x in y:\n    pass\n",
        lambda s: [s.before("for x in y:", "new()")],
        "a\n\nnew()\n# loop\nfor x in y:\n    pass\n",
    ),
    "in the order given": (
        "a\n",
        lambda s: [s.before("a", "p"), s.after("a", "r"), s.before("a", "q"), s.after("a", "s")],
        "p\nq\na\nr\ns\n",
    ),
    "after, ahead of blank lines": (
        "def f():\n\ta  # why\n\n\tb\n",
        lambda s: [s.after("a", "if c:\n    new(\n        1\n    )")],
        "def f():\n\ta  # why\n\tif c:\n\t\tnew(\n\t\t\t1\n\t\t)\n\n\tb\n",
    ),
    "two spaces": (
        "def f():\n  a\n",
        lambda s: [s.after("a", "if c:\n    new(\n        1\n    )")],
        "def f():\n  a\n  if c:\n    new(\n      1\n    )\n",
    ),
    "a block indented unlike the rest of the file": (
        "def f():\n    a\ndef g():\n  b\n",
        lambda s: [s.after("b", "if c:\n    d")],
        "def f():\n    a\ndef g():\n  b\n  if c:\n    d\n",
    ),
    "between statements on a line": (
        "a; b; c  # why\n",
        lambda s: [s.before("b", "new")],
        "a\nnew\nb; c  # why\n",
    ),
    "after a statement that shares its line": (
        "a; b; c  # why\n",
        lambda s: [s.after("a", "new")],
        "a\nnew\nb; c  # why\n",
    ),
    "into one-line suites": (
        "for x in y: a; b  # why\nelse: c\n",
        lambda s: [s.before("a", "p"), s.after("c", "q")],
        "for x in y:\n    p\n    a; b  # why\nelse:\n    c\n    q\n",
    ),
    "next to an elif": (
        "if a:\n    b\n# or\nelif c:\n    d\nelse:\n    e\n",
        lambda s: [s.before("if c:", "new")],
        "if a:\n    b\nelse:\n    new\n    # or\n    if c:\n        d\n    else:\n        e\n",
    ),
    "at the top of a file": (
        "#!/usr/bin/env python\n# licence\n\na\n",
        lambda s: [s.before("a", "new")],
        "#!/usr/bin/env python\n# licence\n\nnew\na\n",
    ),
    "next to definitions": (
        "def f(): pass\n\n\n@d\ndef g(): pass\nclass A:\n    def h(self): pass\n",
        lambda s: [s.after("def f():", "p"), s.before("@d", "q"), s.before("def h(self):", "r = 1")],
        "def f(): pass\n\n\np\n\n\nq\n\n\n@d\ndef g(): pass\nclass A:\n    r = 1\n\n    def h(self): pass\n",
    ),
    "next to a deleted statement": (
        "a\n\n# about b\nb  # behind\nc\n",
        lambda s: [s.before("b", "p"), s.delete("b"), s.after("b", "q")],
        "a\n\np\n# about b\nq\nc\n",
    ),
    "at the end of a file without newline": (
        "if a:\n    b",
        lambda s: [s.after("b", "c"), s.after("if a:", "d")],
        "if a:\n    b\n    c\nd",
    ),
    "with a part and with a whole statement as a part": (
        "a(b(c))\nd\n",
        lambda s: [
            s.before("a(b(c))", "x = {p}", p="b(c)"),
            s.replace("c", "C"),
            s.replace_stmt("d", "if x:\n    {s}", s=s.stmt("d")),
            s.replace("d", "D"),
        ],
        "x = b(C)\na(b(C))\nif x:\n    D\n",
    ),
    "a docstring stays first": (
        'def f():\n    """Doc."""\n\n    a\n',
        lambda s: [s.after("'Doc.'", "new")],
        'def f():\n    """Doc."""\n    new\n\n    a\n',
    ),
}

REPLACE: dict[str, tuple[str, Edits, str]] = {
    "comments above and behind stay": (
        "a\n\n# why\nb.step()  # behind\nc\n",
        lambda s: [s.replace_stmt("b.step()", "acc.step({b})", b="b")],
        "a\n\n# why\nacc.step(b)  # behind\nc\n",
    ),
    "by several": (
        "if x:\n    a = b  # behind\n",
        lambda s: [s.replace_stmt("a = b", "p = {b}\nwith q:\n    a = p", b="b")],
        "if x:\n    p = b  # behind\n    with q:\n        a = p\n",
    ),
    "by a compound statement, the comment goes above": (
        "a  # behind\n",
        lambda s: [s.replace_stmt("a", "if b:\n    c")],
        "# behind\nif b:\n    c\n",
    ),
    "on a shared line": (
        "a; b; c\nd; e; f\n",
        lambda s: [s.replace_stmt("b", "x = 1"), s.replace_stmt("e", "p\nq")],
        "a; x = 1; c\nd\np\nq\nf\n",
    ),
    "in a one-line suite": (
        "if a: b\nif c: d\n",
        lambda s: [s.replace_stmt("b", "x"), s.replace_stmt("d", "with e:\n    f")],
        "if a: x\nif c:\n    with e:\n        f\n",
    ),
    "a compound statement, keeping its body's parts": (
        "for a in b:\n    c(d)\ne\n",
        lambda s: [s.replace_stmt("for a in b:", "f({x})", x="c(d)"), s.replace("d", "D")],
        "f(c(D))\ne\n",
    ),
}

WRAP: dict[str, tuple[str, Edits, str]] = {
    "adjacent statements keep comments and blank lines": (
        "a\n\n# save\nb  # one\n\n# two\nc\nd\n",
        lambda s: [s.wrap("if main:", "b", "c")],
        "a\n\n# save\nif main:\n    b  # one\n\n    # two\n    c\nd\n",
    ),
    "a header with a part": (
        "for x in y:\n    loss(model)\n",
        lambda s: [s.wrap("with acc.accumulate({m}):", "loss(model)", m="model"), s.replace("model", "net")],
        "for x in y:\n    with acc.accumulate(net):\n        loss(net)\n",
    ),
    "continuation lines and nested blocks move along": (
        "def f():\n\tif a:\n\t\tb(c,\n\t\t  d)\n\te = '''\n\tx'''\n",
        lambda s: [s.wrap("if main:", "if a:", "e = '\\n\\tx'")],
        "def f():\n\tif main:\n\t\tif a:\n\t\t\tb(c,\n\t\t\t  d)\n\t\te = '''\n\tx'''\n",
    ),
    "inserts at its ends stay outside": (
        "a\nb\n",
        lambda s: [s.wrap("if m:", "a", "b"), s.before("a", "p"), s.after("a", "q"), s.after("b", "r")],
        "p\nif m:\n    a\n    q\n    b\nr\n",
    ),
    "one of several on a line": (
        "a; b; c\n",
        lambda s: [s.wrap("if m:", "b")],
        "a\nif m:\n    b\nc\n",
    ),
    "in a one-line suite": (
        "if a: b\nelse: c; d\n",
        lambda s: [s.wrap("if m:", "b"), s.wrap("if n:", "c", "d")],
        "if a:\n    if m:\n        b\nelse:\n    if n:\n        c; d\n",
    ),
    "nested and equal": (
        "a\nb\nc\n",
        lambda s: [s.wrap("if p:", "a", "b", "c"), s.wrap("if q:", "a", "b"), s.wrap("if r:", "a", "b")],
        "if p:\n    if q:\n        if r:\n            a\n            b\n    c\n",
    ),
    "asked for twice": (
        "a\n",
        lambda s: [s.wrap("if p:", "a"), s.wrap("if p:", "a")],
        "if p:\n    a\n",
    ),
    "what is left after deletions": (
        "a\nb\nc\nd\n",
        lambda s: [s.wrap("if p:", "a", "b"), s.delete("a"), s.wrap("if q:", "c", "d"), s.delete("c"), s.delete("d")],
        "if p:\n    b\n",
    ),
    "an elif": (
        "if a:\n    b\nelif c:\n    d\n",
        lambda s: [s.wrap("if m:", "if c:")],
        "if a:\n    b\nelse:\n    if m:\n        if c:\n            d\n",
    ),
}

UNWRAP: dict[str, tuple[str, Edits, str]] = {
    "the body goes up a level with its comments": (
        "a\n\n# amp\nwith autocast():  # mixed\n    # forward\n    b(c,\n      d)\n\n    e\n    # end\nf\n",
        lambda s: [s.unwrap("with autocast():"), s.replace("d", "D")],
        "a\n\n# amp\n# forward\nb(c,\n  D)\n\ne\n# end\nf\n",
    ),
    "a one-line suite": (
        "if a: b; c  # why\nd\n",
        lambda s: [s.unwrap("if a:")],
        "b; c  # why\nd\n",
    ),
    "an emptied body leaves nothing but comments": (
        "def f():\n    with a:\n        # why\n        b\n",
        lambda s: [s.unwrap("with a:"), s.delete("b")],
        "def f():\n    # why\n    pass\n",
    ),
    "then wrapped": (
        "with a:\n    b\nc\n",
        lambda s: [s.unwrap("with a:"), s.wrap("with x:", "with a:", "c")],
        "with x:\n    b\n    c\n",
    ),
    "twice nested": (
        "with a:\n    if b:\n        c\n    d\n",
        lambda s: [s.unwrap("with a:"), s.unwrap("if b:")],
        "c\nd\n",
    ),
    "an elif": (
        "if a:\n    b\nelif c:\n    d\n",
        lambda s: [s.unwrap("if c:")],
        "if a:\n    b\nelse:\n    d\n",
    ),
}

ALL = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("delete", DELETE),
        ("insert", INSERT),
        ("replace", REPLACE),
        ("wrap", WRAP),
        ("unwrap", UNWRAP),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", ALL.values(), ids=ALL.keys())
def test_edits_statements(case: tuple[str, Edits, str]) -> None:
    before, edits, after = case
    assert edited(before, edits) == after
