"""What every process computed from all samples, gathered: each sample counts N times."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.check.rules.loader_not_prepared import _cuts_itself, _shares_out
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "gather-over-unprepared-loader"
TITLE = "Results over a loader that was not prepared are gathered"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("gather", "gather_for_metrics", "reduce"):
        loop = program.loop_over(call)
        if loop is None or loop.trains or any(isinstance(v, Prepared) for v in loop.loaders):
            continue
        sites = [v.site for v in loop.loaders if isinstance(v, Made) and v.role is Role.LOADER]
        if not sites or any(_shares_out(program, site) for site in sites) or _cuts_itself(loop.node):
            continue
        shown = quote(loop.node.iter)
        yield Alarm(
            call,
            f"every process reads all of `{shown}`, which was not prepared: gathered, each sample counts N times (an accuracy of up to N x 100 %)",
            f"prepare the loader of `{shown}` and use gather_for_metrics; or leave the gather out",
        )
