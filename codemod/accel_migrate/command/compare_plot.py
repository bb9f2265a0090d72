"""The losses of each precision as a drawing: SVG by itself, other formats by matplotlib."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

from accel_migrate.command.verify_chart import drawing
from accel_migrate.compare.result import Comparison
from accel_migrate.errors import UserError


def check(name: str) -> None:
    """Raise a UserError if no drawing can be written there."""
    path = Path(name)
    if not path.absolute().parent.is_dir():
        raise UserError(f"--plot {name}: there is no such folder")
    if path.suffix.lower() == ".svg":
        return
    if importlib.util.find_spec("matplotlib") is None:
        raise UserError(
            f"--plot {name} needs matplotlib: install it with: pip install matplotlib, or give a name that ends in .svg"
        )
    from matplotlib.figure import Figure

    if path.suffix.lower().lstrip(".") not in (known := Figure().canvas.get_supported_filetypes()):
        raise UserError(
            f"--plot {name}: the name has to end in one of {', '.join('.' + kind for kind in sorted(known))}"
        )


def write(name: str, comparison: Comparison) -> None:
    """Draw and write.

    Raises:
        UserError: the file cannot be written.
    """
    curves = {
        run.precision: [math.nan if loss is None else loss for loss in run.losses]
        for run in comparison.runs
        if not run.error
    }
    try:
        if Path(name).suffix.lower() == ".svg":
            Path(name).write_text(drawing(curves, "loss of each optimizer step"), encoding="utf-8")
        else:
            _by_matplotlib(name, comparison.script, curves)
    except OSError as error:
        raise UserError(f"--plot {name}: {error.strerror or error}") from None


def _by_matplotlib(name: str, title: str, curves: dict[str, list[float]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for precision, losses in curves.items():
        axes.plot(range(1, len(losses) + 1), losses, label=precision, linewidth=1.2)
    axes.set(title=title, xlabel="optimizer step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(name, dpi=150)
