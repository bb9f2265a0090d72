"""The rules: one file each, found by being in this folder.

A rule module has an `ID`, a one-line `TITLE`, a `WHY`, and `apply(context)`, which reads the facts and yields edits and
findings; some also have `finish(context, plan)`. Rules never touch the tree and never call each other.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_migrate.context import Context
    from accel_migrate.edits import Edit, Finding
    from accel_migrate.plan import Plan


@dataclass(frozen=True)
class Rule:
    """One rule as the pipeline sees it."""

    id: str
    title: str
    why: str
    apply: Callable[[Context], Iterable[Edit | Finding]]
    finish: Callable[[Context, Plan], Iterable[Edit | Finding]]
    """Runs after every `apply`, for what depends on which code is left."""
    findings: Mapping[str, str] = field(default_factory=dict)
    """Ids and titles of what it reports under another id than its own (`FINDINGS`)."""
    late: bool = False
    """Whether it applies after the others, because it takes the accelerator only where they brought it."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    rules = (Rule(m.ID, m.TITLE, m.WHY, m.apply, getattr(m, "finish", _nothing), getattr(m, "FINDINGS", {}), getattr(m, "LATE", False)) for m in modules)
    return tuple(sorted(rules, key=lambda rule: rule.id))


def _nothing(context: Context, plan: Plan) -> Iterable[Edit | Finding]:
    return ()
