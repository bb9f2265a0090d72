"""The report of `accel verify` as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.verify.report import Comparison, Report

_FIGURES = {
    "loss": "loss of each step",
    "gradient": "norm of the gradient",
    "learning-rate": "learning rate",
    "weights": "weights and buffers at the end",
    "lines": "printed numbers",
    "files": "values in files",
}
_WIDTH = 32


def table(report: Report) -> Iterator[str]:
    """A block for each number of processes, what was not verified, and the verdict."""
    for comparison in report.comparisons:
        yield from block(comparison)
        yield ""
    yield from (f"not verified: {text}" for text in unverified(report))
    yield f"{report.verdict}: {report.original} and {report.migrated} ({report.took})"


def unverified(report: Report) -> list[str]:
    """What was not compared, each once."""
    return list(dict.fromkeys(text for comparison in report.comparisons for text in comparison.unverified))


def block(comparison: Comparison) -> Iterator[str]:
    """What was found on one number of processes; the first line is its verdict."""
    many = f"{comparison.processes} process{'' if comparison.processes == 1 else 'es'}"
    off = f", with {' and '.join(comparison.switched_off)} switched off" if comparison.switched_off else ""
    larger = f", against the original with batches {comparison.times_as_large} times as large" if comparison.times_as_large > 1 else ""
    stopped = any(difference.kind in ("hang", "timeout", "crash") for difference in comparison.differences)
    steps = "" if stopped else f", {comparison.steps} optimizer steps"
    yield f"{many}: {comparison.verdict}{steps}{off}{larger}"
    for kind, name in _FIGURES.items():
        if kind in comparison.largest:
            floor = f"   (rounding alone: {comparison.floors[kind]:.1e})" if comparison.floors.get(kind) else ""
            yield f"  {_mark(comparison, kind)} {name:{_WIDTH}} differ by {comparison.largest[kind]:.1e} at most{floor}"
    if comparison.loaded:
        yield f"  {_mark(comparison, 'loading')} {'checkpoints of either':{_WIDTH}} loaded in the other: {comparison.loaded} states of models and optimizers"
    for difference in comparison.differences:
        if not difference.expected:
            yield f"  x {difference.kind}: {difference.text}"
    expected = [difference for difference in comparison.differences if difference.expected]
    if expected:
        kinds = ", ".join(dict.fromkeys(difference.kind for difference in expected))
        yield f"  ~ with nothing switched off, as is to be expected, other {kinds}: {expected[0].text}"
    for reason in comparison.reasons:
        yield f"  -> {reason}"


def _mark(comparison: Comparison, kind: str) -> str:
    differs = [d for d in comparison.differences if d.kind == kind and not d.expected]
    return "x" if differs else "="
