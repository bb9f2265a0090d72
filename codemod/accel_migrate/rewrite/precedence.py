"""How tightly an expression binds, how tightly its place wants it to, and the parentheses between the two."""

from __future__ import annotations

import ast

import libcst as cst

BARE_GENERATOR, TUPLE, YIELD, NAMED, TEST, OR, AND, NOT, COMPARISON = range(9)
BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, TERM, UNARY, POWER, AWAIT, ATOM = range(9, 19)

_BINARY: dict[type[cst.BaseBinaryOp], int] = {
    cst.BitOr: BIT_OR,
    cst.BitXor: BIT_XOR,
    cst.BitAnd: BIT_AND,
    cst.LeftShift: SHIFT,
    cst.RightShift: SHIFT,
    cst.Add: SUM,
    cst.Subtract: SUM,
    cst.Power: POWER,
}
_KINDS: dict[type[cst.BaseExpression], int] = {
    cst.GeneratorExp: BARE_GENERATOR,
    cst.Tuple: TUPLE,
    cst.Yield: YIELD,
    cst.NamedExpr: NAMED,
    cst.Lambda: TEST,
    cst.IfExp: TEST,
    cst.Comparison: COMPARISON,
    cst.Await: AWAIT,
}
_PLACES: dict[tuple[type[cst.CSTNode], str], int] = {
    (cst.Attribute, "value"): ATOM,
    (cst.Call, "func"): ATOM,
    (cst.Subscript, "value"): ATOM,
    (cst.Await, "expression"): ATOM,
    (cst.Comparison, "left"): BIT_OR,
    (cst.ComparisonTarget, "comparator"): BIT_OR,
    (cst.IfExp, "body"): OR,
    (cst.IfExp, "test"): OR,
    (cst.Element, "value"): NAMED,
    (cst.Index, "value"): NAMED,
    (cst.StarredElement, "value"): BIT_OR,
    (cst.StarredDictElement, "value"): BIT_OR,
    (cst.If, "test"): NAMED,
    (cst.While, "test"): NAMED,
    (cst.Decorator, "decorator"): NAMED,
    (cst.MatchCase, "guard"): NAMED,
    (cst.ListComp, "elt"): NAMED,
    (cst.SetComp, "elt"): NAMED,
    (cst.GeneratorExp, "elt"): NAMED,
    (cst.CompFor, "iter"): OR,
    (cst.CompIf, "test"): OR,
    (cst.FormattedStringExpression, "expression"): OR,
    (cst.TemplatedStringExpression, "expression"): OR,
    **{
        (kind, field): TUPLE
        for kind, field in (
            (cst.Assign, "value"),
            (cst.AnnAssign, "value"),
            (cst.AugAssign, "value"),
            (cst.AssignTarget, "target"),
            (cst.AsName, "name"),
            (cst.CompFor, "target"),
            (cst.Del, "target"),
            (cst.Expr, "value"),
            (cst.For, "iter"),
            (cst.For, "target"),
            (cst.Match, "subject"),
            (cst.Return, "value"),
            (cst.Yield, "value"),
        )
    },
}
_BRACKETED = (cst.Arg, cst.BaseElement, cst.BaseDictElement, cst.Index, cst.Slice, cst.BaseComp, cst.CompFor, cst.CompIf)


def strength(node: cst.BaseExpression) -> int:
    """How tightly `node`, as written, binds."""
    if node.lpar:
        return ATOM
    if isinstance(node, cst.BinaryOperation):
        return _BINARY.get(type(node.operator), TERM)
    if isinstance(node, cst.BooleanOperation):
        return OR if isinstance(node.operator, cst.Or) else AND
    if isinstance(node, cst.UnaryOperation):
        return NOT if isinstance(node.operator, cst.Not) else UNARY
    return _KINDS.get(type(node), ATOM)


def demand(parent: cst.CSTNode, field: str) -> int:
    """The least strength that an expression needs to stand in `parent.field` without parentheses."""
    if isinstance(parent, cst.Arg):
        return NAMED if parent.keyword is None and not parent.star else TEST
    if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, cst.Power):
        return AWAIT if field == "left" else UNARY
    if isinstance(parent, cst.BinaryOperation | cst.BooleanOperation):
        own = strength(parent.with_changes(lpar=(), rpar=()))
        return own if field == "left" else own + 1
    if isinstance(parent, cst.UnaryOperation):
        return NOT if isinstance(parent.operator, cst.Not) else UNARY
    return _PLACES.get((type(parent), field), TEST)


def fit(parent: cst.CSTNode, field: str, node: cst.BaseExpression) -> cst.BaseExpression:
    """`node` with the parentheses that it needs as `parent.field`, and without those it came with and does not."""
    least = demand(parent, field)
    argument = isinstance(parent, cst.Arg | cst.Element)
    if argument and _peelable(node) and strength(bare := _peel(node)) >= least:
        return bare
    if isinstance(parent, cst.Arg) and least == NAMED and isinstance(node, cst.GeneratorExp):
        return node  # the call sees whether it has the brackets to itself
    too_weak = strength(node) < least
    number = isinstance(parent, cst.Attribute) and isinstance(node, cst.BaseNumber) and not node.lpar
    loose = not isinstance(parent, _BRACKETED) and breaks_lines(node)
    brace = isinstance(parent, cst.FormattedStringExpression) and code(node).startswith("{")
    items = isinstance(parent, cst.WithItem) and isinstance(node, cst.Tuple)  # `with (a, b):` has two items, no tuple
    node = parenthesise(node) if too_weak or number or loose or brace else node
    return parenthesise(node) if items else node


def _peelable(node: cst.BaseExpression) -> bool:
    return (
        len(node.lpar) == 1
        and isinstance(node.lpar[0].whitespace_after, cst.SimpleWhitespace)
        and isinstance(node.rpar[0].whitespace_before, cst.SimpleWhitespace)
    )


def _peel(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=(), rpar=())


def parenthesise(node: cst.BaseExpression) -> cst.BaseExpression:
    """`(node)`."""
    return node.with_changes(lpar=(cst.LeftParen(), *node.lpar), rpar=(*node.rpar, cst.RightParen()))


def breaks_lines(node: cst.BaseExpression) -> bool:
    """Whether `node` spans lines in a way that only brackets around it allow."""
    text = code(node)
    if "\n" not in text:
        return False
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return True
    return False


def code(node: cst.CSTNode) -> str:
    """`node` as text."""
    return cst.Module([]).code_for_node(node)
