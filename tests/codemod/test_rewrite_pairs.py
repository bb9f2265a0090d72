"""Every `ast` node finds its libcst node."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import libcst as cst
import pytest

from accel_migrate.rewrite.pairs import children

SYNTAX = '''\
x[a, b]; x[(a, b)]; x[a,]; x[(a,)]; x[a:b:c, d]; x[:]
del a, b
del (c, d)
del (e)
f(a=1, *b, c=2, **d)
f(*a, b, **c, d=e)
a and b and c or d and (e and f) and g
(a and b) and (c or d or e)
not a; -x ** -y; ~z @ w
f"{a}{b!r:>{w}.{p}}" "x" f"{c=}" rf"""{d + f"{e}"}"""
"a" "b"; b"c"; ...; None; 1j; -1
with (a, b): pass
with (a): pass
with (a, b) as c: pass
with (a as b, c as d): pass
async def f(a, /, b: int = 1, *c: int, d, e=2, **f) -> int:
    """Doc."""
    await x
    yield
    yield a
    x = yield b
    async for i in j: pass
    async with q as r: pass
    return [x async for x in y if z if w for p in q]
def g(*, a): yield from b; return
def h(a, b=1, /, c=2): global q
if a: x; y
elif b: z
elif c:
    w
else:
    if d: e
try: a
except (B, C) as e: b
except D: c
else: d
finally: e
match a:
    case [1, 2] if x: y
    case {"k": v}:
        z
@a.b(c)
@d
class A(B, *d, metaclass=C):
    x: int
    y: int = 3
class E: pass
lambda a, *b, c=1, **d: a
lambda: (yield)
{**a, b: c, **d}; {a: b for a, b in c}; {*a, b}; (a, *b); [*c]; (x for x in y)
while x: break
else: continue
for a, in b: c
for a, *b in (c, d): pass
else: e
x = y, z = w
x += 1
raise A from B
raise C
raise
assert a, b
assert c
a if b else c
(a := b)
a < b <= c is not d not in e
import a.b as c, d
from a import b as c, d
from a import *
'''
NEWER = {
    (3, 11): "x[*a]\nx[*a, b]\ntry: a\nexcept* B as c: d\n",
    (3, 12): "type X[T] = int\ndef f[T: int](x: T): return f'{x['a']}'\nclass A[T](B): pass\n",
    (3, 14): "t'{a:{b}} {c}'\n",
}
_SKIPPED = (ast.pattern, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop) + (
    (ast.type_param,) if sys.version_info >= (3, 12) else ()
)


def _check(node: ast.AST, twin: cst.CSTNode) -> None:
    """All children are paired, each along a real path, and names agree."""
    pairs = list(children(node, twin))
    assert {child for child, _ in pairs} == set(_expected(node, twin)), ast.dump(node)
    for child, path in pairs:
        above = twin
        for below in path:
            assert above is below or any(below is other for other in above.children)
            above = below
        _check_name(child, path[-1])
        _check(child, path[-1])


def _check_name(node: ast.AST, twin: cst.CSTNode) -> None:
    if isinstance(node, ast.Name):
        assert isinstance(twin, cst.Name)
        assert twin.value == node.id
    elif isinstance(node, ast.Attribute):
        assert isinstance(twin, cst.Attribute)
        assert twin.attr.value == node.attr
    elif isinstance(node, ast.arg):
        assert isinstance(twin, cst.Param)
        assert twin.name.value == node.arg


def _expected(node: ast.AST, twin: cst.CSTNode) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if type(node).__name__ in ("JoinedStr", "TemplateStr") and isinstance(child, ast.Constant):
            continue
        if isinstance(child, ast.alias) and child.name == "*":
            continue
        if getattr(node, "format_spec", None) is child:
            yield from _expected(child, twin)
        elif isinstance(twin, cst.Subscript) and isinstance(child, ast.Tuple) and not _is_tuple(twin):
            yield from child.elts
        elif not isinstance(child, _SKIPPED) and type(node).__name__ != "TypeAlias":
            yield child


def _is_tuple(twin: cst.Subscript) -> bool:
    index = twin.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Tuple)


def test_all_syntax_is_paired() -> None:
    _check(ast.parse(SYNTAX), cst.parse_module(SYNTAX))


@pytest.mark.parametrize("version", NEWER)
def test_newer_syntax_is_paired(version: tuple[int, int]) -> None:
    if sys.version_info < version:
        pytest.skip("this Python does not know the syntax")
    _check(ast.parse(NEWER[version]), cst.parse_module(NEWER[version]))
