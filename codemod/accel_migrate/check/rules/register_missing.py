"""A scheduler that steps but was neither prepared nor registered: `save_state` does not know it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "register-missing"
TITLE = "A scheduler is not part of the saved state"
SEVERITY = Severity.WARNING


def check(program: Program) -> Iterator[Alarm]:
    if next(program.calls_of("load_state"), None) is None:
        return
    known = {s for p in program.preparations for s in program.sites(p.argument)}
    known |= {s for c in program.calls_of("register_for_checkpointing") for a in c.args for s in program.sites(a)}
    seen: set[ast.AST] = set()
    for call, (_, method) in program.facts.methods.items():
        if (
            method != "step"
            or not isinstance(call.func, ast.Attribute)
            or not program.facts.has_role(call.func.value, Role.SCHEDULER, Role.METRIC_SCHEDULER)
        ):
            continue
        sites = program.sites(call.func.value)
        if sites and not sites & (known | seen) and not _saves_itself(program, sites):
            seen |= sites
            yield Alarm(
                call,
                f"`{quote(call.func.value)}` was neither prepared nor registered: load_state leaves it at its first step, and the resumed run has another learning rate",
                f"accelerator.register_for_checkpointing({quote(call.func.value)}), or prepare it",
            )


def _saves_itself(program: Program, sites: set[ast.AST]) -> bool:
    return any(
        m in {"state_dict", "load_state_dict"}
        and isinstance(c.func, ast.Attribute)
        and program.sites(c.func.value) & sites
        for c, (_, m) in program.facts.methods.items()
    )
