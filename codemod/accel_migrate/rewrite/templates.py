"""Templates: Python text with placeholders, parsed and filled with nodes."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Callable
from functools import lru_cache

import libcst as cst

from accel_migrate.rewrite.precedence import fit, parenthesise

Filler = Callable[[str], cst.CSTNode]
"""Gives the node for a placeholder's name: an expression, `StarredElement`, keyword `Arg` or statement."""
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_MARK = "_accel_placeholder_"


def expression(template: str, fill: Filler) -> cst.BaseExpression:
    """The expression `template`, filled."""
    return _filled(_parsed_expression(template), fill)  # type: ignore[return-value]


def statements(template: str, fill: Filler, indent: str = "    ") -> list[Statement]:
    """The statements of `template`, filled; `indent` is one level of indentation where they go."""
    return list(_filled(_parsed_statements(template, indent), fill).body)  # type: ignore[attr-defined]


def header(template: str, fill: Filler) -> cst.BaseCompoundStatement:
    """The compound statement that `template`, ending in a colon, begins; its body is still to be put in."""
    (statement,) = statements(template.rstrip() + "\n    pass\n", fill)
    assert isinstance(statement, cst.BaseCompoundStatement), template
    return statement


@lru_cache(maxsize=256)
def _parsed_expression(template: str) -> cst.CSTNode:
    return _parsed(cst.parse_expression, _marked(template))


@lru_cache(maxsize=256)
def _parsed_statements(template: str, indent: str) -> cst.CSTNode:
    lines = _marked(template).strip("\n").split("\n")
    if indent != "    ":
        lines = [_indented(line, indent) for line in lines]
    return _parsed(cst.parse_module, "\n".join(lines) + "\n")


def _parsed(parse: Callable[[str], cst.CSTNode], text: str) -> cst.CSTNode:
    try:
        return parse(text)
    except cst.ParserSyntaxError as error:
        raise AssertionError(f"template {text.replace(_MARK, '')!r} is not valid: {error.message}") from error


def _indented(line: str, indent: str) -> str:
    text = line.lstrip(" ")
    levels, rest = divmod(len(line) - len(text), 4)
    return indent * levels + " " * rest + text


def _marked(template: str) -> str:
    """`template` with identifiers in place of its placeholders, and `{{`, `}}` made single."""
    pieces = []
    for literal, name, spec, conversion in string.Formatter().parse(template):
        assert not spec and not conversion, f"placeholders are plain names: {template!r}"
        pieces.append(literal if name is None else f"{literal}{_MARK}{name}")
    return "".join(pieces)


def _filled(tree: cst.CSTNode, fill: Filler) -> cst.CSTNode:
    root = tree.visit(_Fill(fill))
    assert not isinstance(root, cst.Arg | cst.StarredElement), "a starred or keyword argument is no expression of its own"
    return root  # type: ignore[return-value]


class _Fill(cst.CSTTransformer):
    def __init__(self, fill: Filler) -> None:
        super().__init__()
        self._fill = fill
        self._placed = Placed()

    def on_visit(self, node: cst.CSTNode) -> bool:
        return True

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        name = _placeholder(original)
        if name is None:
            return self._placed.settle(updated)
        return self._placed.put(self._fill(name))


def _placeholder(node: cst.CSTNode) -> str | None:
    if isinstance(node, cst.Name) and node.value.startswith(_MARK):
        return node.value.removeprefix(_MARK)
    return None


class Placed:
    """Nodes put where others were, until the node above has adapted them to their place."""

    def __init__(self) -> None:
        self._nodes: set[cst.CSTNode] = set()

    def put(self, node: cst.CSTNode) -> cst.CSTNode:
        """Marks `node` as newly put in."""
        self._nodes.add(node)
        return node

    def settle(self, parent: cst.CSTNode) -> cst.CSTNode:
        """`parent` with its newly put children parenthesised, starred or lifted as their place needs."""
        if not self._nodes:
            return parent
        if isinstance(parent, cst.SimpleStatementLine) and isinstance(parent.body[0], cst.BaseCompoundStatement):
            return parent.body[0].with_changes(leading_lines=parent.leading_lines)
        for field in dataclasses.fields(parent):
            child = getattr(parent, field.name)
            if isinstance(child, cst.CSTNode) and child in self._nodes:
                if isinstance(child, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                    return child  # `parent` is the expression statement that held the place
                parent = self._adapt(parent, field.name, child)
        return _with_generators_parenthesised(parent) if isinstance(parent, cst.Call) else parent

    def _adapt(self, parent: cst.CSTNode, field: str, child: cst.CSTNode) -> cst.CSTNode:
        if isinstance(child, cst.Arg) and isinstance(parent, cst.Arg):
            return child.with_changes(comma=parent.comma, whitespace_after_arg=parent.whitespace_after_arg)
        if isinstance(child, cst.StarredElement):
            return _starred(parent, child)
        return parent.with_changes(**{field: fit(parent, field, child)})  # type: ignore[arg-type]


def _starred(parent: cst.CSTNode, child: cst.StarredElement) -> cst.CSTNode:
    if isinstance(parent, cst.Arg):
        return parent.with_changes(star="*", value=child.value)
    if isinstance(parent, cst.Element):
        return child.with_changes(comma=parent.comma)
    raise AssertionError("a starred part fits only into arguments and elements")


def _with_generators_parenthesised(call: cst.Call) -> cst.Call:
    if len(call.args) < 2:
        return call
    return call.with_changes(args=[_bracketed_generator(arg) for arg in call.args])


def _bracketed_generator(arg: cst.Arg) -> cst.Arg:
    if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar:
        return arg.with_changes(value=parenthesise(arg.value))
    return arg
