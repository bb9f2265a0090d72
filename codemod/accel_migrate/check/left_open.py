"""What a migration leaves to do by hand, found in its result: what has no formula over the parts of a batch.

The codemod names it when it migrates; here it is found again in a script that keeps the global batch, until it has been seen to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from accel_migrate.check.alarms import Fault
from accel_migrate.check.program import Program
from accel_migrate.places import line_of
from accel_migrate.project import Project


def left_open(project: Project, program: Program, known: Iterable[Fault]) -> Iterator[Fault]:
    """Faults under the ids of the codemod's findings, where `known` has none on the same line."""
    if program.library != "accel_runtime" or not program.is_on("split_batches"):
        return  # elsewhere each process may well take batches of its own
    from accel_migrate.migrate import migrate
    from accel_migrate.result import Options

    result = migrate(project, Options())
    if result.status != "unchanged":
        return
    sources = {source.path: source for source in project.sources.values()}
    taken = {(fault.source.path, line_of(fault)) for fault in known}
    for finding in result.findings:
        path = finding.source.path
        if (path, line_of(finding)) not in taken:
            yield Fault(
                source=sources[path],
                node=finding.node,
                rule=finding.rule,
                message=finding.message,
                advice=finding.advice,
                severity=finding.severity,
            )
