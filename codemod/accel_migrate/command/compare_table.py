"""The report of `accel compare` as lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from accel_migrate.compare.figures import tells_quality
from accel_migrate.compare.result import Comparison, Measured

_MIB = 1 << 20
_MOST_FIGURES = 3
_BARS = "▁▂▃▄▅▆▇█"
_CURVE = 48
"""Columns of a curve."""


def table(comparison: Comparison, curves: bool = True) -> Iterator[str]:
    """The table, a small curve of the losses in each precision, and what has to be known of them."""
    ran = [run for run in comparison.runs if not run.error]
    yield _title(comparison, ran)
    if ran:
        yield from _aligned(list(_rows(comparison, ran)))
        yield ""
        yield from _curves(ran) if curves else ()
    for run in comparison.runs:
        yield from (f"{run.precision}: {note}" for note in run.notes)
        if run.skipped:
            yield f"{run.precision}: {run.skipped} of {run.steps} steps were skipped, since gradients overflowed"
        if run.error:
            yield f"{run.precision}: not run: {run.error}"
        elif comparison.steps and not run.stopped:
            yield f"{run.precision}: the script ended after {run.steps} of {comparison.steps} steps"


def _title(comparison: Comparison, ran: Sequence[Measured]) -> str:
    steps = max((run.steps for run in ran), default=comparison.steps)
    many = f"{comparison.processes} process{'es' if comparison.processes > 1 else ''}"
    device = f" ({ran[0].device})" if ran else ""
    return (
        f"{comparison.script}: {steps} optimizer steps on {many}{device}; in brackets: against {ran[0].precision}"
        if ran
        else f"{comparison.script} on {many}"
    )


def _rows(comparison: Comparison, ran: Sequence[Measured]) -> Iterator[list[str]]:
    figures = _figures(ran)
    heads = ("precision", "steps/s", "samples/s", "peak memory", "loss: last", f"mean of last {comparison.last}")
    yield [*heads, *figures]
    for run in ran:
        against, is_first = comparison.against_first(run), run is ran[0]
        yield [
            run.precision,
            _number(run.steps_per_second) + _times(against["speed"], is_first),
            _number(run.samples_per_second),
            "-"
            if run.peak_memory is None
            else f"{run.peak_memory / _MIB:.0f} MiB" + _times(against["memory"], is_first),
            _number(run.last_loss()) + _difference(against["loss_last"], is_first),
            _number(run.mean_loss(comparison.last)) + _difference(against["loss_mean"], is_first),
            *(_number(run.metrics.get(name)) + _difference(against["metrics"].get(name), is_first) for name in figures),
        ]


def _figures(ran: Sequence[Measured]) -> list[str]:
    """Those to show: of the quality first; the loss itself has its columns."""
    names = dict.fromkeys(
        name for run in ran for name in run.metrics if name not in ("loss", "train loss", "train_loss")
    )
    return sorted(names, key=lambda name: not tells_quality(name))[:_MOST_FIGURES]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _times(ratio: float | None, is_first: bool) -> str:
    return "" if ratio is None or is_first else f" ({ratio:.2f}x)"


def _difference(value: float | None, is_first: bool) -> str:
    return "" if value is None or is_first else f" ({value:+.1e})"


def _curves(ran: Sequence[Measured]) -> Iterator[str]:
    known = [loss for run in ran for loss in run.losses if loss is not None and math.isfinite(loss)]
    if not known:
        return
    low, high = min(known), max(known)
    width = max(len(run.precision) for run in ran)
    for run in ran:
        yield f"{run.precision.ljust(width)}  {_curve(run.losses, low, high)}"
    yield f"{' ' * width}  loss, {low:.4g} to {high:.4g}"
    yield ""


def _curve(losses: Sequence[float | None], low: float, high: float) -> str:
    """Means of equally many steps as bars; ? where they are no numbers."""
    size = max(1, math.ceil(len(losses) / _CURVE))
    means = []
    for at in range(0, len(losses), size):
        part = [loss for loss in losses[at : at + size] if loss is not None]
        means.append(sum(part) / len(part) if part else math.nan)
    return "".join(
        _BARS[round((mean - low) / ((high - low) or 1) * (len(_BARS) - 1))] if math.isfinite(mean) else "?"
        for mean in means
    )
