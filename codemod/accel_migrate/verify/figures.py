"""Figures in text: what the migrated script prints or writes against the original, and against other runs of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from accel_migrate.verify.job import Run
from accel_migrate.verify.masks import masked
from accel_migrate.verify.printed import OTHER_TEXT, Lines, compare_lines
from accel_migrate.verify.report import Comparison
from accel_migrate.verify.training import LOST, TIMES_THE_FLOOR
from accel_migrate.verify.varying import Spread, Varying


@dataclass(frozen=True)
class Figures:
    """What differs, the largest relative difference with the noise floor, and what could not be compared."""

    reasons: list[str]
    largest: float = 0.0
    floor: float = 0.0
    unverified: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OfOriginal:
    """Three runs of the original: the one to compare with, the control run (None if it failed), and one that repeats the first, run only when asked for."""

    run: Run
    control: Run | None
    repeat: Callable[[], Run]


def lines_of(run: Run, lines: Sequence[str]) -> list[str]:
    """Those with something in them, without durations and dates, and without the folders of the run."""
    places = [run.folder, run.folder.resolve(), run.temporary, run.temporary.resolve()]
    return masked([line for line in lines if line.strip()], [str(place) for place in places])


def allowed(relative: float, result: Comparison) -> float:
    """Figures are no more exact than the losses, of which `result` knows the noise floor."""
    return max(relative, TIMES_THE_FLOOR * result.floors.get("loss", 0.0))


def compare_figures(
    expected: Sequence[str], control: Sequence[str], got: Sequence[str], repeat: Callable[[], Sequence[str]], relative: float, result: Comparison, where: str
) -> Figures:
    """Of as many lines; `where` names the text. Numbers of the control run tell how far rounding takes them, and those that a
    repeated run has otherwise are left out; it is asked for only if it could excuse something."""
    most, left = allowed(relative, result), list[str]()
    pair, spread = (list(expected), list(got)), Spread(expected, control)
    compared = compare_lines(*spread.without(*pair), most)
    if compared.reasons:
        varying = Varying(expected, repeat(), relative)
        left += [f"what {len(varying)} {where} say, which depends on more than the training (line {varying.first + 1} is one)"] if varying else []
        pair, spread = varying.without(*pair), Spread(*varying.without(expected, control))
        compared = compare_lines(*spread.without(*pair), most)
    if most > LOST:
        left.append(f"numbers in {where}: rounding alone changes the losses as much")
        compared = Lines([reason for reason in compared.reasons if OTHER_TEXT in reason])
    return Figures(compared.reasons, compare_lines(*pair).largest, max(spread.most, result.floors.get("loss", 0.0)), left)
