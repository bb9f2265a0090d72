"""Is a run of the migrated script the same training as a run of the original?

Each line once, with numbers that agree; the same files, with equal keys and values. Weights are measured per tensor, as
the norm of the difference over the norm, against a noise floor (see `batch_order`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from accel_migrate.verify.hooks.saved import compare_files
from accel_migrate.verify.job import Run
from accel_migrate.verify.printed import RELATIVE, compare_lines

_EVENT_FILE = re.compile(r"events\.out\.tfevents\.[^/]*")


@dataclass
class Verdict:
    """Why two runs differ (nothing, if they are the same) and by how much at most, relatively.

    `printed` is the largest difference of printed numbers, `saved` of saved tensors (at `saved_at`).
    """

    reasons: list[str] = field(default_factory=list)
    printed: float = 0.0
    saved: float = 0.0
    saved_at: str = ""

    @property
    def same(self) -> bool:
        return not self.reasons

    def __str__(self) -> str:
        measured = (
            f"printed numbers within {self.printed:.1g}, saved ones within {self.saved:.1g} ({self.saved_at or '-'})"
        )
        return "\n  ".join(["different:", *self.reasons, measured]) if self.reasons else f"the same, {measured}"


def compare_runs(
    expected: Run,
    got: Run,
    control: Run | None = None,
    *,
    relative: float = RELATIVE,
    ignore: Iterable[str] = (),
    ignore_files: Iterable[str] = (),
) -> Verdict:
    """Compare what two runs printed and saved. `ignore` are patterns of text in lines, `ignore_files` of file names."""
    ignore = tuple(ignore)
    verdict = Verdict(_failures(expected, "original") + _failures(got, "migrated"))
    lines = compare_lines(expected.lines, got.lines, relative, ignore)
    verdict.reasons += lines.reasons
    verdict.printed = lines.largest
    if control and compare_lines(expected.lines, control.lines, relative, ignore).reasons:
        control = None  # noise drawn for each sample met other samples: another training, no floor
    _compare_written(expected, got, control, verdict, relative, tuple(ignore_files))
    return verdict


def _failures(run: Run, which: str) -> list[str]:
    if run.succeeded:
        return []
    how = f"ran out of time after {run.seconds:.0f} s" if run.timed_out else f"ended with code {run.exit_code}"
    tail = [line for line in run.errors.splitlines() if line.strip()][-12:]
    return ["\n      ".join([f"the {which} script {how}:", *tail])]


def _compare_written(
    expected: Run, got: Run, control: Run | None, verdict: Verdict, relative: float, ignore_files: tuple[str, ...]
) -> None:
    theirs, ours = _by_name(expected, ignore_files), _by_name(got, ignore_files)
    verdict.reasons += [f"file {name} is missing" for name in sorted(theirs.keys() - ours.keys())]
    verdict.reasons += [f"file {name} is new" for name in sorted(ours.keys() - theirs.keys())]
    floors = _by_name(control, ignore_files) if control else {}
    for name in sorted(theirs.keys() & ours.keys()):
        floor = control.folder / floors[name] if control and name in floors else None
        files = compare_files(expected.folder / theirs[name], got.folder / ours[name], floor, relative)
        verdict.reasons += [f"{name}: {reason}" for reason in files.reasons]
        if files.largest > verdict.saved:
            verdict.saved, verdict.saved_at = files.largest, f"{name}: {files.largest_at}"


def _by_name(run: Run, ignore_files: tuple[str, ...]) -> dict[str, str]:
    """Written files by the name to compare them under: that of an event file holds the time and the process id."""
    names: dict[str, str] = {}
    for file in run.written:
        if not any(re.search(pattern, file) for pattern in ignore_files):
            name = _EVENT_FILE.sub("events", file)
            names[name if name not in names else f"{name} ({file})"] = file
    return names
