"""A pipeline of three simple rules, so that everything around the real one can be tested on its own."""

from __future__ import annotations

import ast

from accel_migrate.edits import AddImport, DeleteStatement, Edit, Finding, ReplaceExpression, Severity
from accel_migrate.project import Project
from accel_migrate.result import FileChange, Options, Result
from accel_migrate.source import Source


def fake_migrate(project: Project, options: Options) -> Result:
    """`loss.backward()` becomes `accelerator.backward(loss)`; `# by hand`, `# unsafe` and `# info` make findings."""
    if "accelerator" in project.entry.text:
        return Result(project, "unchanged", "already accelerated")
    changes = [change for source in project.sources.values() if (change := _change(source))]
    if not changes:
        return Result(project, "refused", "no training loop found")
    return Result(
        project,
        "changed",
        changes=changes,
        findings=[finding for source in project.sources.values() for finding in _findings(source)],
        held_back=[] if options.unsafe else [edit for source in project.sources.values() for edit in _unsafe(source)],
        notes=["global batch statistics cost one reduction per layer"],
        explanation=f"model: net\ntarget: {options.target}",
    )


def _change(source: Source) -> FileChange | None:
    calls = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call) and _is_backward(node)]
    edits: list[Edit] = [
        ReplaceExpression(source=source, rule="backward", why="averages over processes", node=call, template="")
        for call in calls
    ]
    if not edits:
        return None
    edits.append(AddImport(source=source, rule="accelerator", why="makes the accelerator", module="accel_runtime"))
    after = "import accel_runtime\n" + source.text.replace("loss.backward()", "accelerator.backward(loss)")
    return FileChange(source, after, edits)


def _is_backward(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _findings(source: Source) -> list[Finding]:
    severities = {"# by hand": Severity.WARNING, "# info": Severity.INFO}
    return [
        Finding(source=source, node=node, rule="metric", message="is of one process", advice="gather it", severity=kind)
        for marker, kind in severities.items()
        for node in _marked(source, marker)
    ]


def _unsafe(source: Source) -> list[Edit]:
    return [DeleteStatement(source=source, rule="device", why="moves", node=node) for node in _marked(source, "# unsafe")]


def _marked(source: Source, marker: str) -> list[ast.stmt]:
    lines = source.text.split("\n")
    return [node for node in source.tree.body if marker in lines[node.lineno - 1]]
