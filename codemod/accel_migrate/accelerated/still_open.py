"""What is left to do by hand in a script that is accelerated already."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accel_migrate.accelerated.one_process import as_one_process
from accel_migrate.edits import Finding, Severity
from accel_migrate.places import line_of
from accel_migrate.project import Project
from accel_migrate.source import Source

_SETTLED_BY_A_WEIGHT = {"weighted-mean", "mixed-reduction", "local-figure"}
"""What a person settles with `weight=` or `reduction=` in the very call."""


def still_open(project: Project, findings_of: Callable[[Project], list[Finding]]) -> list[Finding]:
    """The findings that `findings_of` has of the script as one process sees it, and that nobody has settled since."""
    originals = {source.path: source for source in project.sources.values()}
    settled = {path: _settled_lines(source) for path, source in originals.items()}
    return [
        finding
        for finding in findings_of(as_one_process(project))
        if finding.severity is not Severity.INFO
        and not (finding.rule in _SETTLED_BY_A_WEIGHT and line_of(finding) in settled[finding.source.path])
    ]


def _settled_lines(source: Source) -> set[int]:
    return {
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and any(keyword.arg in {"weight", "reduction"} for keyword in node.keywords)
    }
