"""One order for abstract values: by kind, then by the place in the program. The order of a set hangs on addresses."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import fields
from functools import singledispatch
from typing import Any

from accel_migrate.facts.values import (
    Box,
    ClassValue,
    Function,
    Instance,
    Literal,
    Local,
    Made,
    ModuleValue,
    Ref,
    Trainable,
    Value,
)
from accel_migrate.tree_index import place_of

Key = tuple[Any, ...]


def in_order(values: Collection[Value]) -> Collection[Value]:
    """`values`, in an order that is the same in every run."""
    return values if len(values) < 2 else sorted(values, key=rank)


def rank(value: Value) -> Key:
    """Where `value` comes among others."""
    return (type(value).__name__, *_rank(value))


@singledispatch
def _rank(value: Value) -> Key:
    raise TypeError(f"no abstract value: {value!r}")


@_rank.register
def _(value: Ref) -> Key:
    return (value.name,)


@_rank.register
def _(value: Literal) -> Key:
    return type(value.value).__name__, repr(value.value)


@_rank.register
def _(value: ModuleValue) -> Key:
    return value.source.module, str(value.source.path)


@_rank.register
def _(value: Function) -> Key:
    return place_of(value.node), () if value.receiver is None else _rank(value.receiver)


@_rank.register
def _(value: ClassValue) -> Key:
    return (place_of(value.node),)


@_rank.register
def _(value: Instance) -> Key:
    return place_of(value.cls.node), place_of(value.site)


@_rank.register
def _(value: Made) -> Key:
    return value.role.value, place_of(value.site), value.detail


@_rank.register
def _(value: Box) -> Key:
    return place_of(value.site), place_of(value.loop), value.rows


@_rank.register
def _(value: Trainable) -> Key:
    return ()


@_rank.register
def _(value: Local) -> Key:
    return tuple(_part(getattr(value, field.name)) for field in fields(Local))


def _part(part: object) -> Key:
    """An attribute of a `Local`: nodes by their places, nothing before anything."""
    if part is None:
        return ()
    if isinstance(part, ast.AST):
        return (place_of(part),)
    if isinstance(part, frozenset):
        return tuple(sorted(map(_part, part)))
    return tuple(map(_part, part)) if isinstance(part, tuple) else (part,)
