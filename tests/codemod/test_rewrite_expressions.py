"""Expressions replaced by templates."""

from __future__ import annotations

import ast
import sys

import pytest

from accel_migrate.edits import Edit, Inner, ReplaceExpression
from accel_migrate.rewrite import rewrite
from codemod.editing import Edits, Script, edited


def _replace(script: Script, node: ast.expr, template: str) -> Edit:
    return ReplaceExpression(source=script.source, rule="", node=node, template=template)


CASES: dict[str, tuple[str, Edits, str]] = {
    "a part keeps its formatting and comments": (
        "y = f( a,  # first\n      b ).backward()\n",
        lambda s: [s.replace("f(a, b).backward()", "acc.backward({x})", x="f(a, b)")],
        "y = acc.backward(f( a,  # first\n      b ))\n",
    ),
    "an outer replacement holds the inner one": (
        "print(loss.item() * len(data))\n",
        lambda s: [
            s.replace("print(loss.item() * len(data))", "acc.print({x})", x="loss.item() * len(data)"),
            s.replace("loss.item()", "acc.mean({x}).item()", x="loss"),
            s.replace("len(data)", "acc.global_len({x})", x="data"),
        ],
        "acc.print(acc.mean(loss).item() * acc.global_len(data))\n",
    ),
    "a template may hold the replaced node itself": (
        "x = net(y)\n",
        lambda s: [s.replace("net(y)", "gather({x})", x="net(y)")],
        "x = gather(net(y))\n",
    ),
    "an inner part leaves out the edit of the node itself, not those inside": (
        "total += f(net(x.to(d)))\n",
        lambda s: [
            s.replace("net(x.to(d))", "out"),
            s.replace("x.to(d)", "{x}", x="x"),
            s.before("total += f(net(x.to(d)))", "out = gather({n})", n=Inner(s.expr("net(x.to(d))"))),
        ],
        "out = gather(net(x))\ntotal += f(out)\n",
    ),
    "a part may come from elsewhere in the file, with that place's edits": (
        "def f():\n    return a.b\n\n\nx = 1\n",
        lambda s: [s.replace("a.b", "c({x})", x="a"), s.replace("1", "g({y})", y="a.b")],
        "def f():\n    return c(a)\n\n\nx = g(c(a))\n",
    ),
    "a sum becomes the value of an attribute": (
        "x = item(a + b)\n",
        lambda s: [s.replace("item(a + b)", "{x}.item()", x="a + b")],
        "x = (a + b).item()\n",
    ),
    "parentheses that an argument does not need go": (
        "x = (a + b).item()\n",
        lambda s: [s.replace("(a + b).item()", "mean({x}).item()", x="a + b")],
        "x = mean(a + b).item()\n",
    ),
    "parentheses of a tuple stay": (
        "x = (a, b)[0]\n",
        lambda s: [s.replace("(a, b)[0]", "first({x})", x="(a, b)")],
        "x = first((a, b))\n",
    ),
    "parentheses around a new call go": (
        "x = (a + b).mean()\n",
        lambda s: [s.replace("a + b", "add({x}, {y})", x="a", y="b")],
        "x = add(a, b).mean()\n",
    ),
    "parentheses with a layout stay": (
        "x = (\n    net(y)  # forward\n    .to(device)\n)\n",
        lambda s: [s.replace("net(y).to(device)", "{x}", x="net(y)")],
        "x = (\n    net(y)\n)\n",
    ),
    "an operator in place of a name is parenthesised": (
        "x = -n ** 2 + n\n",
        lambda s: [s.replace("n", "a + b"), s.replace("n @1", "a or b")],
        "x = -(a or b) ** 2 + (a + b)\n",
    ),
    "right operands of equal strength are parenthesised, left ones not": (
        "x = l - r\n",
        lambda s: [s.replace("l", "a - b"), s.replace("r", "c - d")],
        "x = a - b - (c - d)\n",
    ),
    "lambda, conditional and walrus are parenthesised where needed only": (
        "f(p, k=q)\nx = r.y\nz = t or u\n",
        lambda s: [
            s.replace("p", "a if b else c"),
            s.replace("q", "(w := 1)"),
            s.replace("r", "lambda: 0"),
            s.replace("t", "a if b else c"),
        ],
        "f(a if b else c, k=(w := 1))\nx = (lambda: 0).y\nz = (a if b else c) or u\n",
    ),
    "a number before a dot is parenthesised": (
        "x = n.real\n",
        lambda s: [s.replace("n", "1")],
        "x = (1).real\n",
    ),
    "a keyword next to a bracket keeps its distance": (
        "if not(a + b): pass\nx = [0]if c else d\nwhile(y): pass\n",
        lambda s: [s.replace("a + b", "p"), s.replace("[0]", "q"), s.replace("y", "z")],
        "if not(p): pass\nx = (q)if c else d\nwhile(z): pass\n",
    ),
    "starred arguments stay starred": (
        "f(*xs, a)\n",
        lambda s: [s.replace("f(*xs, a)", "g(a, {x}, [{x}])", x=s.source.tree.body[0].value.args[0])],
        "g(a, *xs, [*xs])\n",
    ),
    "a starred argument may be replaced by a plain one": (
        "f(*xs, [*xs])\n",
        lambda s: [
            _replace(s, s.source.tree.body[0].value.args[0], "a"),
            _replace(s, s.source.tree.body[0].value.args[1].elts[0], "b"),
        ],
        "f(a, [b])\n",
    ),
    "a keyword argument may move": (
        "f(a, k = 1, **kw)\n",
        lambda s: [
            s.replace(
                "f(a, k=1, **kw)",
                "g({k}, {kw})",
                k=s.source.tree.body[0].value.keywords[0],
                kw=s.source.tree.body[0].value.keywords[1],
            )
        ],
        "g(k = 1, **kw)\n",
    ),
    "a bare generator gets brackets once it is not alone": (
        "s = sum(x for x in y)\n",
        lambda s: [s.replace("sum(x for x in y)", "add({g}, 1) + sum({g})", g="(x for x in y)")],
        "s = add((x for x in y), 1) + sum(x for x in y)\n",
    ),
    "elements of a subscript tuple": (
        "x[a, b:c, d]\n",
        lambda s: [s.replace("a", "p"), s.replace("b", "q"), s.replace("d", "r or s")],
        "x[p, q:c, r or s]\n",
    ),
    "chained and, or, comparisons": (
        "a and b and c or d < e < f\n",
        lambda s: [s.replace(n, n.upper()) for n in "abcdef"],
        "A and B and C or D < E < F\n",
    ),
    "comprehensions": (
        "{k: v for k, v in a.items() if b for c in k}\n",
        lambda s: [s.replace("a.items()", "z"), s.replace("b", "y"), s.replace("k @1", "w")],
        "{k: v for k, v in z if y for c in w}\n",
    ),
    "decorators, defaults and annotations": (
        "@a\n# why\n@b(c)\ndef f(x: d = e, *, y=g) -> h: ...\n",
        lambda s: [s.replace(n, n.upper()) for n in "acdegh"],
        "@A\n# why\n@b(C)\ndef f(x: D = E, *, y=G) -> H: ...\n",
    ),
    "targets": (
        "for a, b in c: d, e = f\nwith g as h: pass\n",
        lambda s: [s.replace("a", "A"), s.replace("d", "x.D"), s.replace("h", "H")],
        "for A, b in c: x.D, e = f\nwith g as H: pass\n",
    ),
    "a tuple as a loop target or a value needs no parentheses": (
        "for x in y: z = w\n",
        lambda s: [s.replace("x", "a, b"), s.replace("w", "c, d")],
        "for a, b in y: z = c, d\n",
    ),
    "two statements on a line, one-line suites, elif": (
        "a; b\nif c: d; e\nelif f: g\nelse: h\n",
        lambda s: [s.replace(n, n.upper()) for n in "abcdefgh"],
        "A; B\nif C: D; E\nelif F: G\nelse: H\n",
    ),
    "wide characters before the node": (
        "s = 'äöü€'; print(s, '😀', x)\n",
        lambda s: [s.replace("x", "y")],
        "s = 'äöü€'; print(s, '😀', y)\n",
    ),
    "f-strings, nested and with computed formats": (
        "print(f'{loss.item():.{n}f}' \"x\" f\"{len(d)!r} {{}} {f'{k}'}\")\n",
        lambda s: [
            s.replace("loss.item()", "mean({x})", x="loss"),
            s.replace("n", "m"),
            s.replace("len(d)", "glen({x})", x="d"),
            s.replace("k", "j"),
        ],
        "print(f'{mean(loss):.{m}f}' \"x\" f\"{glen(d)!r} {{}} {f'{j}'}\")\n",
    ),
    "quotes in an f-string are not the string's own": (
        "f\"{x['a']} {y}\"\n",
        lambda s: [s.replace("y", 'reduce({x}, "sum")', x="y")],
        "f\"{x['a']} {reduce(y, 'sum')}\"\n",
    ),
    "an f-string that prints an expression's text goes on doing so": (
        "print(f'{x = } {f({y})=:.2f} {z=!s} {w=}')\n",
        lambda s: [s.replace("x", "mean({x})", x="x"), s.replace("y", "Y"), s.replace("z", "Z")],
        "print(f'x = {mean(x)!r} f({{y}})={f({Y}):.2f} z={Z!s} {w=}')\n",
    ),
    "a dict in an f-string": (
        "f'{x}'\n",
        lambda s: [s.replace("x", "{{1: 2}}")],
        "f'{({1: 2})}'\n",
    ),
    "a part that broke lines inside brackets gets brackets of its own": (
        "f(net\n  .a)\n",
        lambda s: [s.before("f(net.a)", "x = {n}", n=Inner(s.expr("net.a"))), s.replace("net.a", "x")],
        "x = (net\n  .a)\nf(x)\n",
    ),
    "await, yield and starred assignment": (
        "async def f():\n    await a\n    yield b\n    x, *y = c\n",
        lambda s: [s.replace("a", "p + q"), s.replace("b", "r, s"), s.replace("c", "t")],
        "async def f():\n    await (p + q)\n    yield r, s\n    x, *y = t\n",
    ),
    "a tuple under with": (
        "with a as b: pass\n",
        lambda s: [s.replace("a", "(c, d)")],
        "with ((c, d)) as b: pass\n",
    ),
    "braces of a template": (
        "x = y\n",
        lambda s: [s.replace("y", "{{'k': {v}, **{{}}}}", v="y")],
        "x = {'k': y, **{}}\n",
    ),
    "deletion and assertion": (
        "del a, b[c]\nassert d, e\nraise f from g\n",
        lambda s: [s.replace("c", "C"), s.replace("e", "E"), s.replace("g", "G")],
        "del a, b[C]\nassert d, E\nraise f from G\n",
    ),
    "match": (
        "match a:\n    case [x] if b: c\n    case _:\n        d\n",
        lambda s: [s.replace(n, n.upper()) for n in "abcd"],
        "match A:\n    case [x] if B: C\n    case _:\n        D\n",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_replaces(case: tuple[str, Edits, str]) -> None:
    before, edits, after = case
    assert edited(before, edits) == after


@pytest.mark.skipif(sys.version_info < (3, 12), reason="quotes may repeat from Python 3.12 on")
def test_repeated_quotes_in_an_f_string_stay() -> None:
    assert edited("f'{x['a']} {y}'\n", lambda s: [s.replace("y", "z")]) == "f'{x['a']} {z}'\n"


def test_a_node_of_another_tree_is_refused() -> None:
    script, other = Script("a\nb\n"), Script("a\n")
    with pytest.raises(LookupError, match="Name at line 1"):
        rewrite(script.source, [other.replace("a", "c")])
