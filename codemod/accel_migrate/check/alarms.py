"""What a rule of the linter says."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from accel_migrate.edits import Edit, Finding, Severity


@dataclass(frozen=True, eq=False)
class Fix:
    """How an alarm is put right."""

    edits: tuple[Edit, ...]
    safe: bool = True
    """Whether the result surely does what its author meant; else it is applied only on request."""


@dataclass(frozen=True, eq=False)
class Alarm:
    """One place of a script at which it goes wrong on several processes."""

    node: ast.AST
    message: str
    """What happens on several processes."""
    advice: str = ""
    """What to write."""
    fix: Fix | None = None
    severity: Severity | None = None
    """Where it is another one than the rule's."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Fault(Finding):
    """An alarm with its rule and file."""

    fix: Fix | None = None
