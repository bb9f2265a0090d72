"""What is left to do by hand in a script that is accelerated already."""

from __future__ import annotations

import ast
from collections.abc import Callable

from accel_migrate.accelerated.one_process import as_one_process
from accel_migrate.edits import Finding, Severity
from accel_migrate.places import line_of
from accel_migrate.project import Project
from accel_migrate.source import Source

_ARGUMENTS = {"weight", "reduction"}
_METHODS = {"gather", "gather_for_metrics", "reduce", "draw"}
_FUNCTIONS = {"gather_for_metrics", "draw"}
_NUMBERS = {"num_processes", "process_index"}
"""Calls with such an argument or of such a method, and such attributes, have settled what would be found on their line."""


def still_open(project: Project, findings_of: Callable[[Project], list[Finding]]) -> list[Finding]:
    """The findings that `findings_of` has of the script as one process sees it, and that nobody has settled since."""
    originals = {source.path: source for source in project.sources.values()}
    wholly = any(isinstance(node, ast.Attribute) and node.attr == "gather_with_grad" for s in originals.values() for node in ast.walk(s.tree))
    settled = {path: _settled_lines(source) for path, source in originals.items()}
    return [
        finding
        for finding in findings_of(as_one_process(project))
        if finding.severity is not Severity.INFO and line_of(finding) not in settled[finding.source.path]
        and not (wholly and finding.rule == "unknown-reduction")  # what `gather_with_grad` returns is not looked into
    ]


def _settled_lines(source: Source) -> set[int]:
    return {line for node in ast.walk(source.tree) if _settles(node) for line in range(node.lineno, (node.end_lineno or 0) + 1)}  # type: ignore[attr-defined]


def _settles(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _NUMBERS
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _FUNCTIONS
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in _METHODS or (node.func.attr == "backward" and any(k.arg in _ARGUMENTS for k in node.keywords))
