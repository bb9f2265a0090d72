"""The linter's pipeline: project -> facts -> rules -> faults, and the files with the faults mended."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from accel_migrate.check.alarms import Alarm, Fault
from accel_migrate.check.left_open import left_open
from accel_migrate.check.program import Program
from accel_migrate.check.rules import Check, all_checks
from accel_migrate.edits import Edit
from accel_migrate.facts.interpret import accelerated_facts
from accel_migrate.places import line_of
from accel_migrate.project import Project
from accel_migrate.source import Source
from accel_migrate.suppress import is_suppressed, suppressions

_MOST_ROUNDS = 8
"""Rounds of mending: a fix may bring another alarm to light."""


@dataclass(frozen=True)
class Wanted:
    """Which rules run, and what is mended."""

    select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    fix: bool = False
    unsafe: bool = False

    def runs(self, rule: Check) -> bool:
        return self.keeps(rule.id) and (bool(self.select) or not rule.opt_in)

    def keeps(self, name: str) -> bool:
        """Whether what is reported under the id `name` is wanted."""
        return name not in self.ignore and (not self.select or name in self.select)


@dataclass(frozen=True, eq=False)
class Checked:
    """What came out of one program."""

    project: Project
    """As it is after the fixes."""
    library: str
    """`accelerate` or `accel_runtime`; empty where the program uses neither, and was not looked at."""
    faults: list[Fault] = field(default_factory=list)
    mended: int = 0
    """How many faults were mended."""


def check(project: Project, wanted: Wanted) -> Checked:
    """The faults of `project`; with `wanted.fix` those that are left after mending."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _mended(project, wanted) if wanted.fix else _checked(project, wanted)
    finally:
        if collecting:
            gc.enable()


def _checked(project: Project, wanted: Wanted) -> Checked:
    program = Program(accelerated_facts(project))
    if not program.library:
        return Checked(project, "")
    tables = {source: suppressions(source) for source in program.facts.sources}
    faults = list(_faults(program, wanted))
    faults += [f for f in left_open(project, program, faults) if wanted.keeps(f.rule)]
    faults = [f for f in faults if not is_suppressed(f, tables[f.source])]
    return Checked(
        project,
        program.library,
        sorted(faults, key=lambda f: (str(f.source.path), line_of(f), f.node.col_offset, f.rule)),
    )  # type: ignore[attr-defined]


def _faults(program: Program, wanted: Wanted) -> Iterator[Fault]:
    for rule in all_checks():
        if wanted.runs(rule) and program.library in rule.libraries:
            seen: set[int] = set()
            for alarm in rule.check(program):
                if id(alarm.node) not in seen and not program.facts.is_dead(alarm.node):
                    seen.add(id(alarm.node))
                    yield _fault(program, rule, alarm)


def _fault(program: Program, rule: Check, alarm: Alarm) -> Fault:
    severity = alarm.severity or rule.severity
    return Fault(
        source=program.source(alarm.node),
        node=alarm.node,
        rule=rule.id,
        message=alarm.message,
        advice=alarm.advice,
        severity=severity,
        fix=alarm.fix,
    )


def _mended(project: Project, wanted: Wanted) -> Checked:
    mended = 0
    checked = _checked(project, wanted)
    for _ in range(_MOST_ROUNDS):
        edits, count = _edits(checked.faults, wanted)
        if not count:
            break
        project = project.with_texts({source.path: _rewritten(source, edits[source]) for source in edits})
        mended += count
        checked = _checked(project, wanted)
    return replace(checked, mended=mended)


def _edits(faults: Iterable[Fault], wanted: Wanted) -> tuple[dict[Source, list[Edit]], int]:
    """The edits of all fixes that may be applied together, by file, and how many faults they mend."""
    edits: dict[Source, list[Edit]] = defaultdict(list)
    taken: set[int] = set()
    count = 0
    for fault in faults:
        if fault.fix is None or not (fault.fix.safe or wanted.unsafe):
            continue
        nodes = {
            id(n)
            for e in fault.fix.edits
            for n in (getattr(e, "node", None), *getattr(e, "nodes", ()))
            if n is not None
        }
        if nodes & taken:
            continue  # the next round looks at it again
        taken |= nodes
        count += 1
        for edit in fault.fix.edits:
            edits[edit.source].append(edit)
    return edits, count


def _rewritten(source: Source, edits: list[Edit]) -> str:
    from accel_migrate.rewrite import rewrite

    return rewrite(source, edits)
