"""Compare what two runs have left on disk: saved files, and the states of the trained models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accel_migrate.verify.hooks.saved import compare_files, compare_leaves


def compare_written(files: list[list[str | None]], relative: float, of_figures: float) -> list[dict[str, Any]]:
    """For each (expected, got, control or None, repeat or None): {"reasons", "largest", "floor", "varying", "error"}.

    A control is the same training up to rounding, a repeat the very same one.
    """
    return [_compared([Path(path) if path else None for path in paths], relative, of_figures) for paths in files]


def _compared(paths: list[Path | None], relative: float, of_figures: float) -> dict[str, Any]:
    expected, got, control, repeat = paths
    assert expected is not None and got is not None
    try:
        found = compare_files(expected, got, control, relative, trusted=True, of_figures=of_figures, repeat=repeat)
    except Exception as error:
        return {"reasons": [], "largest": 0.0, "floor": 0.0, "varying": [], "error": f"{type(error).__name__}: {error}"}
    return {"reasons": found.reasons, "largest": found.largest, "floor": found.floor, "varying": found.varying, "error": ""}


def compare_states(expected: str, got: str, control: str | None, relative: float) -> dict[str, Any]:
    """As `compare_written`, of two states: parameters by their place in the optimizers, buffers by name."""
    one, other, floor = (_leaves(path) for path in (expected, got, control or expected))
    found = compare_leaves(one, other, floor, relative, trusted=True)
    return {"reasons": found.reasons, "largest": found.largest, "largest_at": found.largest_at, "floor": found.floor, "names": list(one)}


def _leaves(path: str) -> dict[str, Any]:
    import torch

    saved = torch.load(path, map_location="cpu", weights_only=True)
    several = len({number for number, _, _ in saved["parameters"]}) > 1
    named: dict[str, Any] = {}
    for number, name, value in saved["parameters"]:
        label = f"optimizer {number}: {name}" if several else name
        named[label if label not in named else f"{label} ({len(named)})"] = value
    return named | {f"buffer {name}": value for name, value in saved["buffers"]}
