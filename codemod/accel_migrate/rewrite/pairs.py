"""Which libcst node stands for which `ast` node, found by walking both trees in step.

Two parses of one text agree on structure, so no positions are needed. That is cheaper (libcst's positions cost twice its
parse) and exact where positions are not: inside f-strings before Python 3.12, and around parentheses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import libcst as cst

Path = tuple[cst.CSTNode, ...]
"""The libcst nodes below a parent that lead to a child; the last one is the child's own."""
Pairs = Iterator[tuple[ast.AST, Path]]


def children(node: ast.AST, twin: cst.CSTNode) -> Pairs:
    """Pairs each child of `node` with the path below `twin` to its libcst node."""
    return _CHILDREN.get(type(node), _same_fields)(node, twin)


def _same_fields(node: ast.AST, twin: cst.CSTNode) -> Pairs:
    """Most expressions have their children in fields of the same name and shape in both trees."""
    for name, child in ast.iter_fields(node):
        if isinstance(child, ast.expr):
            yield child, (getattr(twin, _RENAMED.get(name, name)),)


_RENAMED = {"operand": "expression"}


def block_items(block: cst.CSTNode) -> Iterator[Path]:
    """The statements of a module, suite or `elif`, those sharing a line one by one."""
    if isinstance(block, cst.If):  # an `elif` is a statement of its own in `ast`
        yield (block,)
    elif isinstance(block, cst.SimpleStatementSuite):
        for small in block.body:
            yield block, small
    else:
        prefix = () if isinstance(block, cst.Module) else (block,)
        for line in block.body:  # type: ignore[attr-defined]
            if isinstance(line, cst.SimpleStatementLine):
                for small in line.body:
                    yield (*prefix, line, small)
            else:
                yield (*prefix, line)


def _block(statements: Sequence[ast.stmt], block: cst.CSTNode | None, *prefix: cst.CSTNode) -> Pairs:
    if block is not None:
        for statement, path in zip(statements, block_items(block), strict=True):
            yield statement, prefix + path


def _orelse(statements: Sequence[ast.stmt], orelse: cst.If | cst.Else | None) -> Pairs:
    if isinstance(orelse, cst.Else):
        return _block(statements, orelse.body, orelse)
    return _block(statements, orelse)


def _optional(node: ast.AST | None, *path: cst.CSTNode | None) -> Pairs:
    if node is not None:
        yield node, path  # type: ignore[misc]


def _module(node: ast.Module, twin: cst.Module) -> Pairs:
    return _block(node.body, twin)


def _expression_statement(node: ast.Expr, twin: cst.Expr) -> Pairs:
    yield node.value, (twin.value,)


def _assign(node: ast.Assign, twin: cst.Assign) -> Pairs:
    for target, part in zip(node.targets, twin.targets, strict=True):
        yield target, (part, part.target)
    yield node.value, (twin.value,)


def _ann_assign(node: ast.AnnAssign, twin: cst.AnnAssign) -> Pairs:
    yield node.target, (twin.target,)
    yield node.annotation, (twin.annotation, twin.annotation.annotation)
    yield from _optional(node.value, twin.value)


def _delete(node: ast.Delete, twin: cst.Del) -> Pairs:
    bare_tuple = isinstance(twin.target, cst.Tuple) and not twin.target.lpar
    if not bare_tuple:
        yield node.targets[0], (twin.target,)
        return
    for target, element in zip(node.targets, twin.target.elements, strict=True):  # type: ignore[attr-defined]
        yield target, (twin.target, element, element.value)


def _raise(node: ast.Raise, twin: cst.Raise) -> Pairs:
    yield from _optional(node.exc, twin.exc)
    if twin.cause is not None:
        yield from _optional(node.cause, twin.cause, twin.cause.item)


def _assert(node: ast.Assert, twin: cst.Assert) -> Pairs:
    yield node.test, (twin.test,)
    yield from _optional(node.msg, twin.msg)


def _imports(node: ast.Import | ast.ImportFrom, twin: cst.Import | cst.ImportFrom) -> Pairs:
    if not isinstance(twin.names, cst.ImportStar):
        for name, alias in zip(node.names, twin.names, strict=True):
            yield name, (alias,)


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, twin: cst.FunctionDef) -> Pairs:
    yield from _decorators(node.decorator_list, twin.decorators)
    yield node.args, (twin.params,)
    if twin.returns is not None:
        yield from _optional(node.returns, twin.returns, twin.returns.annotation)
    yield from _block(node.body, twin.body)


def _decorators(nodes: Sequence[ast.expr], decorators: Sequence[cst.Decorator]) -> Pairs:
    for node, decorator in zip(nodes, decorators, strict=True):
        yield node, (decorator, decorator.decorator)


def _class(node: ast.ClassDef, twin: cst.ClassDef) -> Pairs:
    yield from _decorators(node.decorator_list, twin.decorators)
    yield from _arguments_of_call(node.bases, node.keywords, [*twin.bases, *twin.keywords])
    yield from _block(node.body, twin.body)


def _parameters(node: ast.arguments, twin: cst.Parameters) -> Pairs:
    positional = list(zip([*node.posonlyargs, *node.args], [*twin.posonly_params, *twin.params], strict=True))
    keyword_only = list(zip(node.kwonlyargs, twin.kwonly_params, strict=True))
    stars = [(arg, star) for arg, star in ((node.vararg, twin.star_arg), (node.kwarg, twin.star_kwarg)) if arg]
    for arg, param in chain(positional, keyword_only, stars):
        yield arg, (param,)  # type: ignore[misc]
    with_default = positional[len(positional) - len(node.defaults) :] if node.defaults else []
    defaults = chain(zip(node.defaults, with_default, strict=True), zip(node.kw_defaults, keyword_only, strict=True))
    for default, (_, param) in defaults:
        yield from _optional(default, param, param.default)


def _parameter(node: ast.arg, twin: cst.Param) -> Pairs:
    if twin.annotation is not None:
        yield from _optional(node.annotation, twin.annotation, twin.annotation.annotation)


def _lambda(node: ast.Lambda, twin: cst.Lambda) -> Pairs:
    yield node.args, (twin.params,)
    yield node.body, (twin.body,)


def _loop(node: ast.For | ast.AsyncFor | ast.While, twin: cst.For | cst.While) -> Pairs:
    yield from _same_fields(node, twin)
    yield from _block(node.body, twin.body)
    yield from _orelse(node.orelse, twin.orelse)


def _if(node: ast.If, twin: cst.If) -> Pairs:
    yield node.test, (twin.test,)
    yield from _block(node.body, twin.body)
    yield from _orelse(node.orelse, twin.orelse)


def _with(node: ast.With | ast.AsyncWith, twin: cst.With) -> Pairs:
    for item, part in zip(node.items, twin.items, strict=True):
        yield item, (part,)
    yield from _block(node.body, twin.body)


def _with_item(node: ast.withitem, twin: cst.WithItem) -> Pairs:
    yield node.context_expr, (twin.item,)
    if twin.asname is not None:
        yield from _optional(node.optional_vars, twin.asname, twin.asname.name)


def _try(node: ast.Try, twin: cst.Try | cst.TryStar) -> Pairs:
    yield from _block(node.body, twin.body)
    for handler, part in zip(node.handlers, twin.handlers, strict=True):
        yield handler, (part,)
    yield from _orelse(node.orelse, twin.orelse)
    if twin.finalbody is not None:
        yield from _block(node.finalbody, twin.finalbody.body, twin.finalbody)


def _handler(node: ast.ExceptHandler, twin: cst.ExceptHandler) -> Pairs:
    yield from _optional(node.type, twin.type)
    yield from _block(node.body, twin.body)


def _match(node: ast.Match, twin: cst.Match) -> Pairs:
    yield node.subject, (twin.subject,)
    for case, part in zip(node.cases, twin.cases, strict=True):
        yield case, (part,)


def _case(node: ast.match_case, twin: cst.MatchCase) -> Pairs:
    """Patterns are left out: nothing edits them."""
    yield from _optional(node.guard, twin.guard)
    yield from _block(node.body, twin.body)


def _bool_op(node: ast.BoolOp, twin: cst.BooleanOperation) -> Pairs:
    """`a or b or c` is one node in `ast` and two, leaning left, in libcst."""
    spine: list[cst.CSTNode] = []
    left: cst.BaseExpression = twin
    paths: list[Path] = []
    for _ in node.values[1:]:
        assert isinstance(left, cst.BooleanOperation)
        paths.append((*spine, left.right))
        left = left.left
        spine.append(left)
    paths.append(tuple(spine))
    return zip(node.values, reversed(paths), strict=True)


def _compare(node: ast.Compare, twin: cst.Comparison) -> Pairs:
    yield node.left, (twin.left,)
    for right, part in zip(node.comparators, twin.comparisons, strict=True):
        yield right, (part, part.comparator)


def _call(node: ast.Call, twin: cst.Call) -> Pairs:
    yield node.func, (twin.func,)
    yield from _arguments_of_call(node.args, node.keywords, twin.args)


def _arguments_of_call(args: Sequence[ast.expr], keywords: Sequence[ast.keyword], twins: Sequence[cst.Arg]) -> Pairs:
    named = [twin for twin in twins if twin.keyword is not None or twin.star == "**"]
    plain = [twin for twin in twins if twin.keyword is None and twin.star != "**"]
    for arg, twin in zip(args, plain, strict=True):
        yield arg, (twin,) if isinstance(arg, ast.Starred) else (twin, twin.value)
    for keyword, twin in zip(keywords, named, strict=True):
        yield keyword, (twin,)


def _value(node: ast.keyword | ast.Starred, twin: cst.Arg | cst.StarredElement) -> Pairs:
    yield node.value, (twin.value,)


def _elements(node: ast.Tuple | ast.List | ast.Set, twin: cst.Tuple | cst.List | cst.Set) -> Pairs:
    for element, part in zip(node.elts, twin.elements, strict=True):
        yield element, (part,) if isinstance(element, ast.Starred) else (part, part.value)


def _dict(node: ast.Dict, twin: cst.Dict) -> Pairs:
    for key, value, part in zip(node.keys, node.values, twin.elements, strict=True):
        if key is not None:
            yield key, (part, part.key)  # type: ignore[attr-defined]
        yield value, (part, part.value)


def _subscript(node: ast.Subscript, twin: cst.Subscript) -> Pairs:
    """`x[a, b]` has no libcst node for its tuple, so that the elements count as children of the subscript."""
    yield node.value, (twin.value,)
    parts = twin.slice
    bare_tuple = isinstance(node.slice, ast.Tuple) and not (len(parts) == 1 and _is_tuple(parts[0].slice))
    nodes: Sequence[ast.expr] = node.slice.elts if bare_tuple else [node.slice]  # type: ignore[attr-defined]
    for child, part in zip(nodes, parts, strict=True):
        if isinstance(part.slice, cst.Slice) or isinstance(child, ast.Starred):
            yield child, (part, part.slice)
        else:
            yield child, (part, part.slice, part.slice.value)


def _is_tuple(index: cst.BaseSlice) -> bool:
    return isinstance(index, cst.Index) and index.star is None and isinstance(index.value, cst.Tuple)


def _slice(node: ast.Slice, twin: cst.Slice) -> Pairs:
    for name in ("lower", "upper", "step"):
        yield from _optional(getattr(node, name), getattr(twin, name))


def _comprehension_expression(node: ast.AST, twin: cst.CSTNode) -> Pairs:
    names = ("key", "value") if isinstance(node, ast.DictComp) else ("elt",)
    for name in names:
        yield getattr(node, name), (getattr(twin, name),)
    part = twin.for_in  # type: ignore[attr-defined]
    path: Path = ()
    for generator in node.generators:  # type: ignore[attr-defined]
        path = (*path, part)
        yield generator, path
        part = part.inner_for_in


def _comprehension(node: ast.comprehension, twin: cst.CompFor) -> Pairs:
    yield node.target, (twin.target,)
    yield node.iter, (twin.iter,)
    for condition, part in zip(node.ifs, twin.ifs, strict=True):
        yield condition, (part, part.test)


def _yield_from(node: ast.YieldFrom, twin: cst.Yield) -> Pairs:
    assert isinstance(twin.value, cst.From)
    yield node.value, (twin.value, twin.value.item)


def _await(node: ast.Await, twin: cst.Await) -> Pairs:
    yield node.value, (twin.expression,)


def _yield(node: ast.Yield, twin: cst.Yield) -> Pairs:
    yield from _optional(node.value, twin.value)


_EXPRESSION_IN_STRING = (cst.FormattedStringExpression, cst.TemplatedStringExpression)
_Replacement = tuple(
    getattr(ast, name) for name in ("FormattedValue", "Interpolation") if hasattr(ast, name)
)


def _joined_string(node: ast.JoinedStr, twin: cst.BaseString) -> Pairs:
    """Literals side by side are one node in `ast`; only the replacement fields matter here."""
    fields = [value for value in node.values if isinstance(value, _Replacement)]
    return zip(fields, _string_fields(twin), strict=True)


def _string_fields(twin: cst.CSTNode, *prefix: cst.CSTNode) -> Iterator[Path]:
    if isinstance(twin, cst.ConcatenatedString):
        yield from _string_fields(twin.left, *prefix, twin.left)
        yield from _string_fields(twin.right, *prefix, twin.right)
    for part in getattr(twin, "parts", ()):
        if isinstance(part, _EXPRESSION_IN_STRING):
            yield (*prefix, part)


def _string_field(node: ast.FormattedValue, twin: cst.FormattedStringExpression) -> Pairs:
    yield node.value, (twin.expression,)
    if node.format_spec is not None and twin.format_spec is not None:
        specs = [part for part in twin.format_spec if isinstance(part, _EXPRESSION_IN_STRING)]
        fields = [value for value in node.format_spec.values if isinstance(value, _Replacement)]  # type: ignore[attr-defined]
        for field, spec in zip(fields, specs, strict=True):
            yield field, (spec,)


def _nothing(node: ast.AST, twin: cst.CSTNode) -> Pairs:
    return iter(())


_CHILDREN: dict[type[ast.AST], Callable[..., Pairs]] = {
    ast.Module: _module,
    ast.Expr: _expression_statement,
    ast.Assign: _assign,
    ast.AnnAssign: _ann_assign,
    ast.Delete: _delete,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Import: _imports,
    ast.ImportFrom: _imports,
    ast.Global: _nothing,
    ast.Nonlocal: _nothing,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.arguments: _parameters,
    ast.arg: _parameter,
    ast.Lambda: _lambda,
    ast.For: _loop,
    ast.AsyncFor: _loop,
    ast.While: _loop,
    ast.If: _if,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.withitem: _with_item,
    ast.Try: _try,
    ast.ExceptHandler: _handler,
    ast.Match: _match,
    ast.match_case: _case,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.Call: _call,
    ast.keyword: _value,
    ast.Starred: _value,
    ast.Tuple: _elements,
    ast.List: _elements,
    ast.Set: _elements,
    ast.Dict: _dict,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.ListComp: _comprehension_expression,
    ast.SetComp: _comprehension_expression,
    ast.GeneratorExp: _comprehension_expression,
    ast.DictComp: _comprehension_expression,
    ast.comprehension: _comprehension,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.JoinedStr: _joined_string,
    ast.FormattedValue: _string_field,
}
if hasattr(ast, "TryStar"):
    _CHILDREN[ast.TryStar] = _try
if hasattr(ast, "TypeAlias"):
    _CHILDREN[ast.TypeAlias] = _nothing
if hasattr(ast, "TemplateStr"):
    _CHILDREN[ast.TemplateStr] = _joined_string
    _CHILDREN[ast.Interpolation] = _string_field
