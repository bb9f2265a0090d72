"""Loss curves as an SVG drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _EDGE = 860, 300, 70, 30
_COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#8250df", "#bf8700")
_WIDTHS = (5.0, 2.0)
"""The first curve is broad and light: the others lie on it where they are the same."""
_TICKS = 5
_LEGEND = 90
"""Width of a name in a picture's legend."""
_LEAST = 1e-9


def chart(curves: Mapping[str, Sequence[float]], label: str, logarithmic: bool = False) -> str:
    """The curves by name, with a legend, over the number of the step; points that are not finite are left out.

    A logarithmic chart begins at 1e-9, where smaller values are drawn.
    """
    if logarithmic:
        curves = {name: [math.log10(max(value, _LEAST)) for value in curve] for name, curve in curves.items()}
    parts = _parts(curves, logarithmic)
    if not parts:
        return "<p>No step was taken.</p>"
    return _legend(curves) + f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%" role="img" aria-label="{escape(label)}">' + parts + "</svg>"


def drawing(curves: Mapping[str, Sequence[float]], label: str) -> str:
    """The same as a picture of its own, with the legend inside and the label below the axis."""
    names = "".join(
        f'<text x="{_LEFT + number * _LEGEND}" y="18" fill="{_COLOURS[number % len(_COLOURS)]}">{escape(name)}</text>' for number, name in enumerate(curves)
    )
    below = f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 14}" text-anchor="middle">{escape(label)}</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT + 24}" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
    return f"{head}{names}{_parts(curves, False)}{below}</svg>\n"


def _parts(curves: Mapping[str, Sequence[float]], logarithmic: bool) -> str:
    """Axes and curves; nothing where no step was taken."""
    values = [v for curve in curves.values() for v in curve if math.isfinite(v)]
    steps = max((len(curve) for curve in curves.values()), default=0)
    if not values or steps < 1:
        return ""
    low, high = min(values), max(values)
    scale = _Scale(steps, low, high if high > low else low + 1.0)
    return "".join([*_axes(scale, logarithmic), *(part for number, curve in enumerate(curves.values()) for part in _curve(scale, number, curve))])


class _Scale:
    """From steps (from 0) and losses to places in the drawing."""

    def __init__(self, steps: int, low: float, high: float) -> None:
        self.steps, self.low, self.high = steps, low, high

    def x(self, step: float) -> float:
        return _LEFT + step / max(self.steps - 1, 1) * (_WIDTH - _LEFT - _EDGE)

    def y(self, loss: float) -> float:
        return _HEIGHT - _EDGE - (loss - self.low) / (self.high - self.low) * (_HEIGHT - 2 * _EDGE)


def _axes(scale: _Scale, logarithmic: bool) -> Iterator[str]:
    for tick in range(_TICKS):
        loss = scale.low + (scale.high - scale.low) * tick / (_TICKS - 1)
        y = scale.y(loss)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _EDGE}" y2="{y:.1f}" stroke="#d0d7de"/>'
        yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_tick(loss, logarithmic)}</text>'
    for step in sorted({0, (scale.steps - 1) // 2, scale.steps - 1}):
        yield f'<text x="{scale.x(step):.1f}" y="{_HEIGHT - 8}" text-anchor="middle">{step + 1}</text>'


def _tick(value: float, logarithmic: bool) -> str:
    return f"{10**value:.0e}" if logarithmic else f"{value:.4g}"


def _curve(scale: _Scale, number: int, losses: Sequence[float]) -> Iterator[str]:
    points = " ".join(f"{scale.x(n):.1f},{scale.y(loss):.1f}" for n, loss in enumerate(losses) if math.isfinite(loss))
    colour, width = _COLOURS[number % len(_COLOURS)], _WIDTHS[min(number, 1)]
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-opacity="{_opacity(number)}"/>'


def _legend(names: Iterable[str]) -> str:
    """Above the drawing, where no curve is."""
    marks = (f'<span><b style="color: {_COLOURS[number % len(_COLOURS)]}; opacity: {_opacity(number)}">&#9644;</b> {escape(name)}</span>' for number, name in enumerate(names))
    return f'<p class="legend">{" ".join(marks)}</p>'


def _opacity(number: int) -> float:
    return 0.35 if number == 0 else 1.0
