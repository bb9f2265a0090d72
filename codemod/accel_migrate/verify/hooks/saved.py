"""Do two files that two runs saved hold the same?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from accel_migrate.verify.hooks.unpickled import TORCH_SUFFIXES, load_saved
from accel_migrate.verify.printed import compare_lines

RELATIVE = 1e-4
TIMES_THE_FLOOR = 10.0
IMAGE_RELATIVE = 1e-2  # rounding to eight bits may move a pixel by a step
ABSOLUTE = 1e-7  # per element: sums of a gradient which is zero but for rounding


@dataclass
class Saved:
    """`reasons` why the files differ, and the largest relative difference of a tensor or number, with its place."""

    reasons: list[str] = field(default_factory=list)
    largest: float = 0.0
    largest_at: str = ""


def compare_files(
    expected: Path, got: Path, control: Path | None, relative: float = RELATIVE, trusted: bool = False
) -> Saved:
    """Compare two files of the same name. `control` is that of the control run, which tells the noise floor.

    `trusted` says that it is known to be the same training, however far rounding took it.
    """
    suffix = expected.suffix.lower()
    if suffix in TORCH_SUFFIXES:
        leaves = [load_saved(path) for path in (expected, got, control or expected)]
    elif suffix in (".npy", ".npz"):
        leaves = [_load_arrays(path) for path in (expected, got, control or expected)]
    elif suffix in (".png", ".jpg", ".jpeg"):
        leaves = [_load_image(path) for path in (expected, got, control or expected)]
        relative = max(relative, IMAGE_RELATIVE)
    elif "tfevents" in expected.name:
        leaves = [_load_scalars(path) for path in (expected, got, control or expected)]
    else:
        return _compare_content(expected, got)
    return compare_leaves(*leaves, relative=relative, trusted=trusted)


def compare_leaves(
    expected: Mapping[str, Any],
    got: Mapping[str, Any],
    control: Mapping[str, Any],
    relative: float = RELATIVE,
    trusted: bool = False,
) -> Saved:
    """Compare leaf by leaf: equal keys and kinds; tensors and numbers within ten times the noise floor, or `relative`."""
    result = Saved(_different_keys(expected, got))
    floors = noise_floors(expected, control, math.inf if trusted else relative)
    for key in sorted(expected.keys() & got.keys()):
        kind = _different_kind(expected[key], got[key])
        if kind:
            result.reasons.append(f"{key}: {kind}")
            continue
        difference = relative_difference(expected[key], got[key])
        floor = floors.get(key, 0.0)
        if difference > result.largest:
            result.largest, result.largest_at = difference, key
        if not difference <= max(relative, TIMES_THE_FLOOR * floor):
            result.reasons.append(f"{key}: differs by {difference:.2g} of its norm, the noise floor is {floor:.2g}")
    return result


def noise_floors(expected: Mapping[str, Any], control: Mapping[str, Any], relative: float) -> dict[str, float]:
    """Relative difference by key; none at all where most of them exceed `relative`.

    Such a control run was another training: the script draws noise for each sample, which then met other samples.
    """
    import torch

    floating = [key for key, value in expected.items() if isinstance(value, (torch.Tensor, float)) and key in control]
    floors = {key: relative_difference(expected[key], control[key]) for key in floating}
    return floors if floors and median(floors.values()) <= relative else {}


def _different_keys(expected: Mapping[str, Any], got: Mapping[str, Any]) -> list[str]:
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    reasons = [f"key {key} is missing" for key in missing[:5]] + [f"key {key} is new" for key in extra[:5]]
    return reasons + ([f"... {len(missing)} keys missing, {len(extra)} new"] if len(missing + extra) > 10 else [])


def _different_kind(expected: Any, got: Any) -> str:
    import torch

    if type(expected) is not type(got):
        return f"{type(expected).__name__} became {type(got).__name__}"
    if isinstance(expected, torch.Tensor) and (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return f"{expected.dtype} of {tuple(expected.shape)} became {got.dtype} of {tuple(got.shape)}"
    return ""


def relative_difference(expected: Any, got: Any) -> float:
    """Norm of the difference over the norm of `expected`; infinite for other values that are not equal.

    Differences under 1e-7 per element count as none.
    """
    import torch

    if isinstance(expected, float):
        expected, got = torch.tensor(expected, dtype=torch.float64), torch.tensor(got, dtype=torch.float64)
    if not isinstance(expected, torch.Tensor):
        return 0.0 if expected == got or repr(expected) == repr(got) else math.inf
    if expected.shape != got.shape or not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(expected, got) else math.inf
    if torch.allclose(expected, got, rtol=0.0, atol=ABSOLUTE, equal_nan=True):
        return 0.0
    distance, norm = (expected.double() - got.double()).norm().item(), expected.double().norm().item()
    return distance / norm if norm else math.inf


def _load_arrays(path: Path) -> dict[str, Any]:
    import numpy as np
    import torch

    loaded = np.load(path, allow_pickle=True)
    arrays = dict(loaded) if path.suffix == ".npz" else {"array": loaded}
    return {
        key: torch.as_tensor(value) if value.dtype.kind in "biuf" else value.tolist() for key, value in arrays.items()
    }


def _load_image(path: Path) -> dict[str, Any]:
    import numpy as np
    import torch
    from PIL import Image

    return {"pixels": torch.from_numpy(np.array(Image.open(path))).float()}


def _load_scalars(path: Path) -> dict[str, Any]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(path)).Reload()
    tags = events.Tags()["scalars"]
    return {f"{tag}[{i}]@{e.step}": float(e.value) for tag in tags for i, e in enumerate(events.Scalars(tag))}


def _compare_content(expected: Path, got: Path) -> Saved:
    one, other = expected.read_bytes(), got.read_bytes()
    if one == other:
        return Saved()
    try:
        lines = compare_lines(one.decode().splitlines(), other.decode().splitlines())
    except UnicodeDecodeError:
        return Saved([f"{len(one)} bytes became {len(other)} other ones"])
    return Saved(lines.reasons, lines.largest, "text")
