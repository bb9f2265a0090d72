"""The rules of `accel check`: one file each, found by being in this folder.

A rule module says in its docstring what goes wrong, and has an `ID`, a one-line `TITLE`, a `SEVERITY` and `check(program)`, which reads a `Program` and yields `Alarm`s. A rule
that concerns one library only names it in `LIBRARIES`, and one that
runs only on request has `OPT_IN`. Its page is docs/checks/<ID>.md, whose examples are its tests.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from accel_migrate.edits import Severity

if TYPE_CHECKING:
    from accel_migrate.check.alarms import Alarm
    from accel_migrate.check.program import Program

BOTH = frozenset({"accelerate", "accel_runtime"})


@dataclass(frozen=True)
class Check:
    """One rule as the linter sees it."""

    id: str
    title: str
    why: str
    """What it is about, in a sentence."""
    severity: Severity
    check: Callable[[Program], Iterable[Alarm]]
    libraries: frozenset[str] = BOTH
    """The libraries whose scripts it concerns; in the other one the trap is harmless."""
    opt_in: bool = False
    """Whether it runs only where it is selected: it is right, but seldom worth saying."""


@cache
def all_checks() -> tuple[Check, ...]:
    """Every rule, by id."""
    names = [module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    checks = (
        Check(
            m.ID,
            m.TITLE,
            (m.__doc__ or "").strip(),
            m.SEVERITY,
            m.check,
            getattr(m, "LIBRARIES", BOTH),
            getattr(m, "OPT_IN", False),
        )
        for m in modules
    )
    return tuple(sorted(checks, key=lambda check: check.id))
