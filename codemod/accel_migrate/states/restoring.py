"""Whether `load_state` does what a script does with what it has loaded."""

from __future__ import annotations

import ast

from accel_migrate.context import Context
from accel_migrate.facts.values import Role
from accel_migrate.states.loaded import Loaded, Restored, asks_for_presence, emptied, is_wrapped_choice
from accel_migrate.states.problem import Unconvertible
from accel_migrate.states.saved import Saved, sites_of


def check_load(context: Context, saves: list[Saved], loaded: Loaded, counters: set[str]) -> None:
    """Look at each use of what is loaded.

    Raises:
        Unconvertible: it is used in another way than to restore objects as they were saved, and to read `counters`.
    """
    name = loaded.name.id
    if loaded.others:
        raise Unconvertible(
            loaded.others[0],
            f"`{name}` is used as a whole, or changed, after it is loaded",
            "read it by its keys alone",
        )
    if not context.accelerator.is_reachable(loaded.calls[0]):
        raise Unconvertible(
            loaded.calls[0],
            "the accelerator cannot be had where a checkpoint is loaded",
            "load it where the training loop is",
        )
    gone = emptied(context, loaded)
    loaded.reads = [read for read in loaded.reads if not any(a in gone for a in context.facts.ancestors(read.name))]
    for read in loaded.reads:
        if read.key not in counters:
            raise Unconvertible(
                read.name,
                f"{read.key!r} is read and no checkpoint that is saved holds it as a plain value",
                "restore it by hand",
            )
    written = [e for s in saves for e in s.entries() if e.object is not None]
    for restored in loaded.restored:
        sites = sites_of(context, restored.object)
        known = [e for e in written if e.name == restored.key]
        same = any(
            sites & sites_of(context, e.object) or _both_scalers(context, restored.object, e.object) for e in known
        )  # type: ignore[arg-type]
        if not known or not same:
            raise Unconvertible(
                restored.call,
                f"{restored.key!r} is not saved from the object that it is loaded into",
                "load it by hand",
            )
        if len(restored.call.args) > 1 or restored.call.keywords:
            raise Unconvertible(
                restored.call,
                "only a part of the state is loaded (strict=False)",
                "pass strict=False to load_state by hand",
            )
        _check_conditions(context, loaded, restored)


def _both_scalers(context: Context, one: ast.expr, other: ast.expr) -> bool:
    return context.facts.has_role(one, Role.SCALER) and context.facts.has_role(other, Role.SCALER)


def _check_conditions(context: Context, loaded: Loaded, restored: Restored) -> None:
    """Nothing may decide whether an object is restored but whether it is there."""
    around = {id(a) for s in loaded.statements for a in context.facts.ancestors(s)}
    for ancestor in context.facts.ancestors(restored.statement):
        if isinstance(ancestor, ast.FunctionDef | ast.Module) or id(ancestor) in around:
            return
        if isinstance(ancestor, ast.If) and (
            is_wrapped_choice(context, loaded.restored, ancestor) or asks_for_presence(context, ancestor.test, restored)
        ):
            continue
        raise Unconvertible(
            restored.call,
            "a condition decides whether this is loaded, and load_state loads everything",
            "keep the file format, or drop the condition",
        )
