"""What goes into a migration and what comes out of it: dataclasses only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from accel_migrate.edits import Edit, Finding
from accel_migrate.project import Project
from accel_migrate.source import Source

Target = Literal["accel_runtime", "accelerate"]
Checkpoint = Literal["file", "state"]
Status = Literal["changed", "unchanged", "refused"]


@dataclass(frozen=True)
class Options:
    """How to migrate."""

    target: Target = "accel_runtime"
    """The library which the result imports."""
    unsafe: bool = False
    """Whether to apply rewrites which may change behaviour."""
    select: frozenset[str] = frozenset()
    """Ids of the only rules to run; empty means all."""
    ignore: frozenset[str] = frozenset()
    """Ids of rules not to run."""
    checkpoint: Checkpoint = "file"
    """Whether checkpoints keep the script's file format, or become states of the accelerator."""
    as_script: bool = False
    """Whether a notebook becomes a script, which is launched from outside."""


@dataclass(frozen=True, eq=False)
class FileChange:
    """One file that becomes another: `after` is its new text, with `\\n` line ends like `Source.text`."""

    source: Source
    after: str
    edits: list[Edit]


@dataclass(frozen=True, eq=False)
class Result:
    """The outcome for one training program."""

    project: Project
    status: Status
    """`changed`: there is something to write. `unchanged`: there is nothing to do, for example because the script is
    already accelerated. `refused`: nothing can be done, for example because there is no training loop."""
    reason: str = ""
    """One line; why nothing changed."""
    changes: list[FileChange] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What is left to a person."""
    held_back: list[Edit] = field(default_factory=list)
    """Unsafe edits which were not applied."""
    notes: list[str] = field(default_factory=list)
    """Further lines of the report, for example what global batch statistics cost."""
    explanation: str = ""
    """The facts, printable, for `--explain`."""
