"""Do two files that two runs saved hold the same?"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from accel_migrate.verify.hooks.unpickled import TORCH_SUFFIXES, is_saved, load_saved
from accel_migrate.verify.printed import compare_lines

RELATIVE = 1e-4
TIMES_THE_FLOOR = 10.0
IMAGE_RELATIVE = 1e-2  # rounding to eight bits may move a pixel by a step
_DIGITS = re.compile(r"\d+")
_ARRAYS, _IMAGES = (".npy", ".npz"), (".png", ".jpg", ".jpeg")
LOADED = (*TORCH_SUFFIXES, *_ARRAYS, *_IMAGES, ".safetensors")
"""Endings of files whose values are compared; of others it is the text."""
ABSOLUTE = 1e-7  # per element: sums of a gradient which is zero but for rounding


@dataclass
class Saved:
    """`reasons` why the files differ, and the largest relative difference of a tensor or number, with its place and noise floor; what is `varying` was not compared."""

    reasons: list[str] = field(default_factory=list)
    largest: float = 0.0
    largest_at: str = ""
    floor: float = 0.0
    varying: list[str] = field(default_factory=list)


def compare_files(
    expected: Path,
    got: Path,
    control: Path | None,
    relative: float = RELATIVE,
    trusted: bool = False,
    of_figures: float = 0.0,
    repeat: Path | None = None,
) -> Saved:
    """Compare two files of the same name. `control` is that of the control run, which tells the noise floor.

    `trusted` says that it is known to be the same training, however far rounding took it; numbers may differ by `of_figures`.
    What differs from `repeat`, another run of the very same training, is left out.
    """
    suffix = expected.suffix.lower()
    load = _loader(expected, suffix)
    if load is None:
        return _compare_content(expected, got, repeat)
    leaves = [load(path) for path in (expected, got, control or expected)]
    relative = max(relative, IMAGE_RELATIVE) if suffix in _IMAGES else relative
    varying = _not_repeated(leaves[0], load(repeat)) if repeat else set()
    left = [{key: value for key, value in each.items() if key not in varying} for each in leaves]
    result = compare_leaves(*left, relative=relative, trusted=trusted, of_figures=of_figures)
    result.varying = sorted(varying)
    return result


def _not_repeated(expected: Mapping[str, Any], repeat: Mapping[str, Any]) -> set[str]:
    """Keys of values that the very same training does not reproduce: times, say."""
    return {key for key in expected.keys() & repeat.keys() if relative_difference(expected[key], repeat[key]) > 0}


def _loader(file: Path, suffix: str) -> Callable[[Path], dict[str, Any]] | None:
    loaders = {**dict.fromkeys(TORCH_SUFFIXES, load_saved), **dict.fromkeys(_ARRAYS, _load_arrays), **dict.fromkeys(_IMAGES, _load_image), ".safetensors": _load_safetensors}
    return _load_scalars if "tfevents" in file.name else loaders.get(suffix) or (load_saved if is_saved(file) else None)


def compare_leaves(
    expected: Mapping[str, Any],
    got: Mapping[str, Any],
    control: Mapping[str, Any],
    relative: float = RELATIVE,
    trusted: bool = False,
    of_figures: float = 0.0,
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
        shown = difference or _beneath(expected[key], got[key])
        if shown > result.largest:
            result.largest, result.largest_at, result.floor = shown, key, floor
        if not difference <= max(_least(expected[key], relative, of_figures), TIMES_THE_FLOOR * floor):
            result.reasons.append(f"{key}: differs by {difference:.2g} of its norm, the noise floor is {floor:.2g}")
    return result


def _least(value: Any, relative: float, of_figures: float) -> float:
    """What counts as no difference of such a value."""
    return max(relative, of_figures) if isinstance(value, float) else 0.0 if _is_whole(value) else relative


def noise_floors(expected: Mapping[str, Any], control: Mapping[str, Any], relative: float) -> dict[str, float]:
    """Relative difference by key, of numbers the largest of those whose keys differ in nothing but digits: figures of other steps.

    Of tensors also differences count that are none elsewhere: sums that cancel out are nothing but rounding.
    None at all where most of them exceed `relative`. Such a control run was another training: the script draws noise for each
    sample, which then met other samples.
    """
    import torch

    floors = {key: relative_difference(value, control[key]) for key, value in expected.items() if key in control}
    figures = [floor for key, floor in floors.items() if _is_figure(expected[key])]
    if not figures or not median(figures) <= relative:
        return {}
    for key in floors.keys() & {key for key, value in expected.items() if isinstance(value, torch.Tensor)}:
        floors[key] = relative_difference(expected[key], control[key], 0.0)
    largest: dict[str, float] = defaultdict(float)
    for key, floor in floors.items():
        if _is_number(expected[key]):
            largest[_form(key)] = max(largest[_form(key)], floor)
    return {key: largest[_form(key)] if _is_number(expected[key]) else floor for key, floor in floors.items()}


def _form(key: str) -> str:
    return _DIGITS.sub("#", key)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_whole(value)


def _is_figure(value: Any) -> bool:
    import torch

    return isinstance(value, float) or (isinstance(value, torch.Tensor) and value.dtype.is_floating_point)


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


def relative_difference(expected: Any, got: Any, absolute: float = ABSOLUTE) -> float:
    """Norm of the difference over the norm of `expected`; infinite for other values that are not equal.

    Differences under `absolute` (1e-7) per element count as none.
    """
    import torch

    if _is_whole(expected) and _is_whole(got):
        return abs(expected - got) / max(abs(expected), abs(got), 1)
    if isinstance(expected, float):
        expected, got = torch.tensor(expected, dtype=torch.float64), torch.tensor(got, dtype=torch.float64)
    if not isinstance(expected, torch.Tensor):
        return 0.0 if expected == got or repr(expected) == repr(got) else math.inf
    if expected.shape != got.shape or not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(expected, got) else math.inf
    if torch.allclose(expected, got, rtol=0.0, atol=absolute, equal_nan=True):
        return 0.0
    distance, norm = (expected.double() - got.double()).norm().item(), expected.double().norm().item()
    return distance / norm if norm else math.inf


def _beneath(expected: Any, got: Any) -> float:
    """What a difference that counts as none is, absolutely or relatively, whichever is less: at most 1e-7, and 0 only where nothing differs."""
    import torch

    if not _is_figure(expected):
        return 0.0
    one, other = torch.as_tensor(expected).double(), torch.as_tensor(got).double()
    distance = (one - other).nan_to_num()
    relative = distance.norm().item() / max(one.norm().item(), 1e-300)
    return min(relative, distance.abs().max().item()) if distance.numel() else 0.0


def _load_arrays(path: Path) -> dict[str, Any]:
    import numpy as np
    import torch

    loaded = np.load(path, allow_pickle=True)
    arrays = dict(loaded) if path.suffix == ".npz" else {"array": loaded}
    return {
        key: torch.as_tensor(value) if value.dtype.kind in "biuf" else value.tolist() for key, value in arrays.items()
    }


def _load_safetensors(path: Path) -> dict[str, Any]:
    from accel_runtime.checkpoint.tensor_files import TensorFile

    file = TensorFile(path)
    return {name: file.tensor(name) for name in file.entries}


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


def _compare_content(expected: Path, got: Path, repeat: Path | None) -> Saved:
    one, other = expected.read_bytes(), got.read_bytes()
    if one == other:
        return Saved()
    if repeat is not None and repeat.read_bytes() != one:
        raise ValueError("two runs of the original do not write the same bytes")
    try:
        lines = compare_lines(one.decode().splitlines(), other.decode().splitlines())
    except UnicodeDecodeError:
        return Saved([f"{len(one)} bytes became {len(other)} other ones"])
    return Saved(lines.reasons, lines.largest, "text")
