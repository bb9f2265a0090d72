"""One order for abstract values: by kind, then by the place in the program. The order of a set hangs on addresses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from dataclasses import fields
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
    Prepared,
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
    """Where `value` comes among others; it keeps the answer, as it keeps its hash."""
    found = value.__dict__.get("_rank")
    if found is None:
        kind = type(value)
        found = value.__dict__["_rank"] = (kind.__name__, *_RANKS[kind](value))
    return found


def _of_literal(value: Literal) -> Key:
    return type(value.value).__name__, repr(value.value)


def _of_module(value: ModuleValue) -> Key:
    return value.source.module, str(value.source.path)


def _of_function(value: Function) -> Key:
    receiver = () if value.receiver is None else _of_instance(value.receiver)
    return place_of(value.node), receiver, place_of(value.owner.node if value.owner is not None else None)


def _of_instance(value: Instance) -> Key:
    return place_of(value.cls.node), place_of(value.site)


def _of_made(value: Made) -> Key:
    return value.role.value, place_of(value.site), value.detail


def _of_box(value: Box) -> Key:
    return place_of(value.site), place_of(value.loop), value.rows


def _of_local(value: Local) -> Key:
    return tuple(_part(getattr(value, name)) for name in _LOCAL_FIELDS)


def _part(part: object) -> Key:
    """An attribute of a `Local`: nodes by their places, nothing before anything."""
    if part is None:
        return ()
    if isinstance(part, ast.AST):
        return (place_of(part),)
    if isinstance(part, frozenset):
        return tuple(sorted(map(_part, part)))
    return tuple(map(_part, part)) if isinstance(part, tuple) else (part,)


_LOCAL_FIELDS = [field.name for field in fields(Local)]
_RANKS: dict[type, Callable[[Any], Key]] = {
    Ref: lambda value: (value.name,),
    Literal: _of_literal,
    ModuleValue: _of_module,
    Function: _of_function,
    ClassValue: lambda value: (place_of(value.node),),
    Instance: _of_instance,
    Made: _of_made,
    Prepared: lambda value: (place_of(value.call), value.index),
    Box: _of_box,
    Local: _of_local,
    Trainable: lambda value: (),
}
