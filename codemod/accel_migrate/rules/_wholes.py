"""Models that are parts of others: prepared with them, unless the whole is made under a condition only."""

from __future__ import annotations

import ast

from accel_migrate.context import Context
from accel_migrate.edits import Finding, Severity
from accel_migrate.facts.values import Instance, Made, Role


def prepared_by_themselves(context: Context) -> list[ast.AST]:
    """Sites of trained models that are no part of another trained one, or not always: `if args.scaled: model = Scaled(model)`."""
    found = []
    for site in context.trained:
        wholes = context.facts.parts_of.get(site, set()) & context.trained
        if not wholes or (not any(_always(context, whole, site) for whole in wholes) and not _wrapped_twice(context, site)):
            found.append(site)
    return found


def wrapped_twice(context: Context, site: ast.AST) -> Finding | None:
    """What is to be said of the model made at `site`, where only its whole is prepared, and that not always."""
    wholes = context.facts.parts_of.get(site, set()) & context.trained
    if not wholes or any(_always(context, whole, site) for whole in wholes) or not _wrapped_twice(context, site):
        return None
    return Finding(
        source=context.source(site), node=site, rule="accelerate-models", severity=Severity.ERROR,  # type: ignore[arg-type]
        message="this model is trained by itself, and as a part of a model that is made under a condition only: Accelerate would wrap it twice",
        advice="prepare it where that condition does not hold: model = accelerator.prepare(model); or give both models one name",
    )  # fmt: skip


def _always(context: Context, whole: ast.AST, part: ast.AST) -> bool:
    """Whether `whole` is made whenever `part` is, as far as the conditions around it tell."""
    conditions = (a for a in context.facts.ancestors(whole) if isinstance(a, ast.If | ast.IfExp) and "__name__" not in ast.unparse(a.test))
    return all(context.facts.inside(part, condition) for condition in conditions)


def _wrapped_twice(context: Context, site: ast.AST) -> bool:
    """Whether Accelerate would wrap the model made at `site` and a whole around it: they have names of their own."""
    if not context.dialect.wraps:
        return False
    wholes = context.facts.parts_of.get(site, set()) & context.trained
    return any(not _names(context, site) & _names(context, whole) for whole in wholes)


def _names(context: Context, site: ast.AST) -> set[str]:
    """The variables and attributes that hold the model made at `site`."""
    return {
        ast.unparse(binding.target)
        for binding in context.facts.bindings
        for value in binding.values
        if isinstance(value, Made | Instance) and value.site is site and context.facts.role(value) is Role.MODEL
    }
