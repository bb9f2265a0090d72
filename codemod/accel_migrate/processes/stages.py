"""Runs the stages around the rules, and brings what they say back to the lines of the files on disk."""

from __future__ import annotations

import ast
import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from accel_migrate.edits import Edit, Finding, RenameParameter, WrapStatements
from accel_migrate.facts import catalog
from accel_migrate.facts.accelerated import accelerator_calls
from accel_migrate.facts.distributed import process_group_calls
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.interpret import gather_facts
from accel_migrate.places import node_of
from accel_migrate.processes.counts import numbers_of_processes
from accel_migrate.processes.fold import Folding
from accel_migrate.processes.launch_scripts import launch_notes
from accel_migrate.processes.spawn import called_directly, without_sharing
from accel_migrate.processes.sweep import leftovers
from accel_migrate.project import Project
from accel_migrate.result import FileChange, Options, Result
from accel_migrate.rewrite import rewrite
from accel_migrate.selection import is_wanted
from accel_migrate.source import Source

ID = "hand-made-ddp"

MAX_ROUNDS = 12
COMMANDS = {"accel_runtime": "accel launch", "accelerate": "accelerate launch"}
_T = TypeVar("_T", Edit, Finding)


@dataclass(eq=False)
class Staged:
    """A program as the rules get it, and what was done to make it so."""

    original: Project
    project: Project
    known: Facts | None
    """The facts of `project`, once they have been asked for."""
    edits: list[Edit] = field(default_factory=list)
    """In the files on disk."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.project is not self.original

    @property
    def facts(self) -> Facts:
        if self.known is None:
            self.known = gather_facts(self.project)
        return self.known

    def relocated(self, items: Iterable[_T]) -> list[_T]:
        """`items`, which stand in `project`, as items of the files on disk."""
        return [relocate(item, self.original) for item in items]

    def apply(self, edits: Sequence[Edit]) -> bool:
        """The project after one more round of edits; False where they change nothing."""
        after = rewritten(edits)
        if not after:
            return False
        self.edits += self.relocated(edits)
        self.project = self.project.with_texts(after)
        self.known = None
        return True


def staged(project: Project, facts: Facts, options: Options) -> Staged:
    """`project` as one process runs it, or as a launcher starts it."""
    stage = Staged(project, project, facts)
    if not is_wanted(ID, options) or already_accelerated(facts):
        return stage
    folding = Folding()
    _repeat(stage, lambda: folding.edits(stage.facts))
    stage.findings += stage.relocated(folding.findings)
    if stage.changed:
        _repeat(stage, lambda: leftovers(project, stage.project))
    about_starts = stage.relocated(f for f in (*without_sharing(stage.facts), *numbers_of_processes(stage.facts)) if isinstance(f, Finding))
    folded = stage.project
    _repeat(stage, lambda: called_directly(stage.facts))
    if stage.project is not folded:
        stage.findings += about_starts
    return stage


def finished(stage: Staged, result: Result, options: Options) -> Result:
    """`result` of the rules, swept up and in terms of the files on disk."""
    cares = has_processes(stage.facts) or already_accelerated(stage.facts)
    if result.status == "refused" or not (stage.changed or (result.status == "changed" and is_wanted(ID, options) and cares)):
        return replace(result, project=stage.original, findings=stage.relocated(result.findings))
    after = stage.project.with_texts({change.source.path: change.after for change in result.changes})
    edits = [*stage.edits, *stage.relocated(edit for change in result.changes for edit in change.edits)]
    before = stage.original
    for _ in range(MAX_ROUNDS):
        swept = leftovers(before, after)
        texts = rewritten(swept)
        if not texts:
            break
        edits += [relocate(edit, before) for edit in swept]
        after = after.with_texts(texts)
    findings = [*stage.findings, *stage.relocated(result.findings)]
    changes = _changes(before, after, edits)
    notes = [*result.notes, *launch_notes(before, after, COMMANDS[options.target])]
    return replace(result, project=before, status="changed" if changes else result.status, changes=changes, findings=findings, notes=notes)


def _changes(before: Project, after: Project, edits: Sequence[Edit]) -> list[FileChange]:
    changes = []
    for source in dict.fromkeys([before.entry, *before.sources.values()]):
        text = of_path(after, source.path).text
        if text != source.text:
            changes.append(FileChange(source, text, [e for e in edits if e.source is source]))
    return changes


def _repeat(stage: Staged, edits: Callable[[], list[Edit]]) -> None:
    for _ in range(MAX_ROUNDS):
        if not stage.apply(edits()):
            break


def has_processes(facts: Facts) -> bool:
    """Whether the script itself cares for several processes or devices."""
    wrappers = catalog.DATA_PARALLEL | catalog.DISTRIBUTED_DATA_PARALLEL
    return bool(process_group_calls(facts)) or any(name in wrappers for name in facts.external.values())


def already_accelerated(facts: Facts) -> bool:
    return bool(accelerator_calls(facts))


def rewritten(edits: Sequence[Edit]) -> dict[Path, str]:
    """File -> its text after `edits`, for the files which they change."""
    by_source: dict[Source, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_source[edit.source].append(edit)
    texts = {source: rewrite(source, own) for source, own in by_source.items()}
    return {source.path: text for source, text in texts.items() if text != source.text}


def relocate(item: _T, original: Project) -> _T:
    """`item`, which stands in a later text of a file, at its line of `original`."""
    before, node = of_path(original, item.source.path), node_of(item)
    if before.text == item.source.text:
        return item
    place = _at(before, original_line(before.text, item.source.text, int(getattr(node, "lineno", 1)))) if node is not None else None
    if place is None:
        return replace(item, source=before)
    if isinstance(item, WrapStatements):
        return replace(item, source=before, nodes=(place,))
    if isinstance(item, RenameParameter):
        return replace(item, source=before, parameter=place)  # type: ignore[type-var]
    return replace(item, source=before, node=place)  # type: ignore[call-arg]


def of_path(project: Project, path: Path) -> Source:
    return next(source for source in (project.entry, *project.sources.values()) if source.path == path)


def _at(source: Source, line: int) -> ast.stmt:
    """A stand-in for what stands on `line`."""
    text = source.text.split("\n")[line - 1]
    indent = len(text) - len(text.lstrip())
    return ast.Pass(lineno=line, col_offset=indent, end_lineno=line, end_col_offset=len(text.encode()))


def original_line(before: str, after: str, line: int) -> int:
    """The line of `before` which became `line` of `after`; of a new line, the one above it."""
    mapped = 1
    old, new = before.split("\n"), after.split("\n")
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        if block.b < line <= block.b + block.size:
            return block.a + line - block.b
        if block.size and block.b + block.size < line:
            mapped = block.a + block.size
    return min(mapped + 1, len(old)) if mapped > 1 else 1
