"""Comparing versions of installed packages."""

from __future__ import annotations

import importlib.metadata
import operator
import re
from typing import Any

_OPERATIONS: dict[str, Any] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


def compare_versions(library_or_version: Any, operation: str, requirement_version: str) -> bool:
    """Whether `library_or_version operation requirement_version`, e.g. `compare_versions("torch", ">=", "2.6")`.

    Raises:
        ValueError: `operation` is unknown.
    """
    if operation not in _OPERATIONS:
        raise ValueError(f"operation is {operation!r}: it must be one of {', '.join(_OPERATIONS)}")
    given = str(library_or_version)
    if not given[:1].isdigit():
        given = importlib.metadata.version(given)
    left, right = _numbers(given), _numbers(requirement_version)
    width = max(len(left), len(right))
    return bool(_OPERATIONS[operation](left + [0] * (width - len(left)), right + [0] * (width - len(right))))


def is_torch_version(operation: str, version: str) -> bool:
    """Whether the installed torch's version compares so."""
    import torch

    return compare_versions(torch.__version__, operation, version)


def _numbers(version: str) -> list[int]:
    """The release part of a version: "2.13.0+cpu" is [2, 13, 0]."""
    return [int(part) for part in re.match(r"\d+(\.\d+)*", version)[0].split(".")]  # type: ignore[index]
