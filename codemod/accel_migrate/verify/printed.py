"""Are two outputs the same lines, with numbers that agree?"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

OTHER_TEXT = "other text"
RELATIVE = 1e-4
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?|\bnan\b|[-+]?\binf\b")
_WHOLE = re.compile(r"[-+]?\d+")


@dataclass
class Lines:
    """`reasons` why they differ, and the largest relative difference of two floating-point numbers that stand in the same place."""

    reasons: list[str] = field(default_factory=list)
    largest: float = 0.0


def compare_lines(
    expected: Sequence[str], got: Sequence[str], relative: float = RELATIVE, ignore: Iterable[str] = ()
) -> Lines:
    """Compare line by line; whatever an `ignore` pattern matches (a duration, a path) counts as equal to itself.

    Whole numbers must be equal. Others may differ by `relative`, or by one in the last digit printed.
    """
    patterns = [re.compile(pattern) for pattern in ignore]
    expected, got = _masked(expected, patterns), _masked(got, patterns)
    result = Lines()
    if len(expected) != len(got):
        result.reasons.append(_different_count(expected, got))
        return result
    for number, (one, other) in enumerate(zip(expected, got, strict=True), start=1):
        reason, difference = _compare_line(one, other, relative)
        result.largest = max(result.largest, difference)
        if reason:
            result.reasons.append(f"line {number}: {reason}: {one!r} became {other!r}")
    return result


def _masked(lines: Sequence[str], patterns: list[re.Pattern[str]]) -> list[str]:
    masked = []
    for line in lines:
        for pattern in patterns:
            line = pattern.sub("<ignored>", line)
        masked.append(line)
    return masked


def _different_count(expected: Sequence[str], got: Sequence[str]) -> str:
    more = Counter(map(skeleton, got)) - Counter(map(skeleton, expected))
    fewer = Counter(map(skeleton, expected)) - Counter(map(skeleton, got))
    example = next((f", {count} too many like {line!r}" for line, count in more.items()), "")
    example += next((f", {count} missing like {line!r}" for line, count in fewer.items()), "")
    return f"{len(expected)} lines became {len(got)}{example}"


def skeleton(line: str) -> str:
    """The line without its numbers; the width of a column may change with a sign."""
    return " ".join(NUMBER.sub("#", line).split())


def _compare_line(one: str, other: str, relative: float) -> tuple[str, float]:
    if skeleton(one) != skeleton(other):
        return OTHER_TEXT, 0.0
    largest, reason = 0.0, ""
    for a, b in zip(NUMBER.findall(one), NUMBER.findall(other), strict=True):
        if _WHOLE.fullmatch(a) and _WHOLE.fullmatch(b):
            reason = reason or ("" if int(a) == int(b) else f"{a} is not {b}")
            continue
        difference, allowed = _difference(a, b, relative)
        largest = max(largest, difference)
        if not difference <= allowed:
            reason = reason or f"{a} is not {b}"
    return reason, largest


def relative_distance(a: str, b: str) -> float:
    """Relative difference of two printed numbers; infinite where only one of them is finite."""
    x, y = float(a), float(b)
    if x == y or (math.isnan(x) and math.isnan(y)):
        return 0.0
    if not (math.isfinite(x) and math.isfinite(y)):
        return math.inf
    return abs(x - y) / max(abs(x), abs(y))


def _difference(a: str, b: str, relative: float) -> tuple[float, float]:
    """Relative difference of two printed numbers and how large it may be."""
    distance = relative_distance(a, b)
    if not 0 < distance < math.inf:
        return distance, 0.0
    return distance, relative + 1.01 * min(_last_digit(a), _last_digit(b)) / max(abs(float(a)), abs(float(b)))


def _last_digit(text: str) -> float:
    """Value of one unit in the last place: 0.001 for 2.345, 1e-6 for 1.234e-03."""
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)
