"""Edits of calls, class headers and parameter lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from accel_migrate.edits import AddArgument, AddParameter
from accel_migrate.rewrite.separated import inserted, removed


def edited_call(call: cst.Call, gone: Sequence[int], added: Sequence[AddArgument]) -> cst.Call:
    """`call` without the arguments at the places `gone`, then with those of `added`."""
    args: list[Any] = list(call.args)
    for index in sorted(gone, reverse=True):
        args = removed(args, index)
    opening = call.whitespace_before_args if args else cst.SimpleWhitespace("")
    for edit in added:
        args = inserted(args, _place_of(edit, args), _argument(edit), opening)
    if len(args) > 1:
        args = [_with_generator_bracketed(arg) for arg in args]
    return call.with_changes(args=args, whitespace_before_args=opening)


def edited_class(definition: cst.ClassDef, added: Sequence[AddArgument]) -> cst.ClassDef:
    """`definition` with the arguments of `added` in its header."""
    args: list[Any] = [*definition.bases, *definition.keywords]
    bracket = definition.lpar
    opening = bracket.whitespace_after if isinstance(bracket, cst.LeftParen) else cst.SimpleWhitespace("")
    for edit in added:
        args = inserted(args, _place_of(edit, args), _argument(edit), opening)
    bases = [arg for arg in args if arg.keyword is None and arg.star != "**"]
    return definition.with_changes(bases=bases, keywords=[arg for arg in args if arg not in bases])


def _argument(edit: AddArgument) -> cst.Arg:
    text = edit.value if edit.keyword is None else f"{edit.keyword}={edit.value}"
    call = cst.parse_expression(f"f({text})")
    assert isinstance(call, cst.Call) and len(call.args) == 1, text
    return call.args[0]


def _place_of(edit: AddArgument, args: Sequence[cst.Arg]) -> int:
    if edit.keyword is None:
        return sum(1 for arg in args if arg.keyword is None and not arg.star)
    double_star = [index for index, arg in enumerate(args) if arg.star == "**"]
    return double_star[0] if double_star else len(args)


def _with_generator_bracketed(arg: cst.Arg) -> cst.Arg:
    if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar:
        value = arg.value.with_changes(lpar=(cst.LeftParen(),), rpar=(cst.RightParen(),))
        return arg.with_changes(value=value)
    return arg


def with_parameter(function: cst.FunctionDef, edit: AddParameter) -> cst.FunctionDef:
    """`function` with one more parameter: behind `*args` one that is given by name."""
    params = function.params
    if isinstance(params.star_arg, cst.Param):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        named = [*(p.with_changes(comma=comma) for p in params.kwonly_params), _parameter(edit)]
        return function.with_changes(params=params.with_changes(star_arg=params.star_arg.with_changes(comma=comma), kwonly_params=named))
    before, after = list(params.posonly_params), list(params.params)
    index = _index_for(edit, before, after)
    flat = [node for node in _flat(params) if not isinstance(node, cst.MaybeSentinel) and node is not None]
    slash = 1 if isinstance(params.posonly_ind, cst.ParamSlash) else 0
    if slash and index < len(before):
        flat = inserted(flat, index, _parameter(edit), function.whitespace_before_params)
        return function.with_changes(params=_split(params, flat, len(before) + 1, len(after)))
    flat = inserted(flat, index + slash, _parameter(edit), function.whitespace_before_params)
    return function.with_changes(params=_split(params, flat, len(before), len(after) + 1))


def without_parameter(function: cst.FunctionDef, place: int) -> cst.FunctionDef:
    """`function` without the parameter at `place` among those that may be given by position."""
    params = function.params
    before = len(params.posonly_params)
    if place < before:
        return function.with_changes(params=params.with_changes(posonly_params=removed(params.posonly_params, place)))
    follows = isinstance(params.star_arg, cst.Param | cst.ParamStar) or params.kwonly_params or params.star_kwarg
    rest = list(removed(params.params, place - before)) if not follows else _plainly_removed(params.params, place - before)
    return function.with_changes(params=params.with_changes(params=rest))


def _plainly_removed(nodes: Sequence[cst.Param], place: int) -> list[cst.Param]:
    return [*nodes[:place], *nodes[place + 1 :]]


def _index_for(edit: AddParameter, before: Sequence[cst.Param], after: Sequence[cst.Param]) -> int:
    positional = [*before, *after]
    if edit.default is not None:
        return len(positional)
    return next((index for index, param in enumerate(positional) if param.default is not None), len(positional))


def _parameter(edit: AddParameter) -> cst.Param:
    default = "" if edit.default is None else f"={edit.default}"
    function = cst.parse_statement(f"def f({edit.name}{default}): pass")
    assert isinstance(function, cst.FunctionDef)
    return function.params.params[0]


def _flat(params: cst.Parameters) -> list[Any]:
    return [
        *params.posonly_params,
        params.posonly_ind,
        *params.params,
        params.star_arg,
        *params.kwonly_params,
        params.star_kwarg,
    ]


def _split(params: cst.Parameters, flat: Sequence[Any], before: int, after: int) -> cst.Parameters:
    """`params` with the nodes of `flat`, of which the first `before` are positional-only and `after` follow the slash."""
    nodes = iter(flat)

    def take(old: Any) -> Any:
        return old if old is None or isinstance(old, cst.MaybeSentinel) else next(nodes)

    return params.with_changes(
        posonly_params=[next(nodes) for _ in range(before)],
        posonly_ind=take(params.posonly_ind),
        params=[next(nodes) for _ in range(after)],
        star_arg=take(params.star_arg),
        kwonly_params=[next(nodes) for _ in params.kwonly_params],
        star_kwarg=take(params.star_kwarg),
    )


def renamed_parameter(param: cst.Param, name: str, needs_default: bool) -> cst.Param:
    """`param` under another name, without annotation and without default, or with None where the ones before have one."""
    default = cst.Name("None") if needs_default and param.default else None
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")) if default else cst.MaybeSentinel.DEFAULT
    return param.with_changes(name=cst.Name(name), annotation=None, default=default, equal=equal)


def follows_default(param: cst.Param, params: cst.Parameters) -> bool:
    """Whether a positional parameter ahead of `param` has a default, so that `param` must have one too."""
    positional = [*params.posonly_params, *params.params]
    return param in positional and any(other.default for other in positional[: positional.index(param)])
