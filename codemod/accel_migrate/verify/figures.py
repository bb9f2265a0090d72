"""Figures in text: what the migrated script prints or writes against the original, and against a control run of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel_migrate.verify.job import Run
from accel_migrate.verify.masks import masked
from accel_migrate.verify.printed import OTHER_TEXT, Lines, compare_lines
from accel_migrate.verify.report import Comparison
from accel_migrate.verify.training import LOST, TIMES_THE_FLOOR
from accel_migrate.verify.varying import Varying


@dataclass(frozen=True)
class Figures:
    """What differs, and what could not be compared."""

    lines: Lines
    unverified: list[str]


def lines_of(run: Run, lines: Sequence[str]) -> list[str]:
    """Those with something in them, without durations and dates, and without the folders of the run."""
    places = [run.folder, run.folder.resolve(), run.temporary, run.temporary.resolve()]
    return masked([line for line in lines if line.strip()], [str(place) for place in places])


def allowed(relative: float, result: Comparison) -> float:
    """Figures are no more exact than the losses, of which `result` knows the noise floor."""
    return max(relative, TIMES_THE_FLOOR * result.floors.get("loss", 0.0))


def compare_figures(expected: Sequence[str], again: Sequence[str], got: Sequence[str], relative: float, result: Comparison, where: str) -> Figures:
    """Of as many lines; numbers that the control run has otherwise, in `again`, are left out. `where` names the text."""
    varying = Varying(expected, again, relative)
    left = [f"numbers in {len(varying)} {where}, which depend on more than the training (line {varying.first + 1} is one)"] if varying else []
    compared = compare_lines(*varying.without(expected, got), allowed(relative, result))
    if allowed(relative, result) > LOST:
        left.append(f"numbers in {where}: rounding alone changes the losses as much")
        compared = Lines([reason for reason in compared.reasons if OTHER_TEXT in reason])
    return Figures(compared, left)
