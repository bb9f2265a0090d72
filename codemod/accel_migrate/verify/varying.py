"""Numbers in lines that two runs of one training do not share: durations, memory, whatever else depends on more than it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from accel_migrate.verify.printed import NUMBER, compare_lines, relative_distance, skeleton

_OFTEN = 0.3
"""Of the lines of one form: from here on the number varies in all of them, also where two runs happen to agree."""
_TIMES = 10.0
"""In other lines of the form it may differ by so many times what it does between the two runs."""
_TEXT = "<varies>"


class Varying:
    """Learnt from the lines of a run and of another one of the same training, by the lines' form and the number's place in it."""

    def __init__(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        self._in_line: set[tuple[int, int]] = set()
        self._in_form: set[tuple[str, int]] = set()
        self._largest: dict[tuple[str, int], float] = defaultdict(float)
        if len(lines) == len(again):
            self._learn(lines, again, relative)

    def __len__(self) -> int:
        return len({line for line, _ in self._in_line})

    @property
    def first(self) -> int:
        """Number of the first such line, from 0."""
        return min(line for line, _ in self._in_line)

    def without(self, lines: Sequence[str], others: Sequence[str]) -> tuple[list[str], list[str]]:
        """`lines`, and as many `others` of another run, with these numbers replaced by the same text."""
        left = [self._without(number, *pair) for number, pair in enumerate(zip(lines, others, strict=True))]
        return [one for one, _ in left], [other for _, other in left]

    def _learn(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        forms = Counter(map(skeleton, lines))
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, (one, other) in enumerate(zip(lines, again, strict=True)):
            for place, distance in _different(one, other, relative):
                key = skeleton(one), place
                found[key].append(number)
                self._largest[key] = max(self._largest[key], distance)
        for (form, place), numbers in found.items():
            self._in_line |= {(number, place) for number in numbers}
            if len(numbers) > _OFTEN * forms[form]:
                self._in_form.add((form, place))

    def _without(self, number: int, line: str, other: str) -> tuple[str, str]:
        form = skeleton(line)
        if form != skeleton(other):
            return line, other
        pairs = list(zip(NUMBER.findall(line), NUMBER.findall(other), strict=True))
        places = {place for place, pair in enumerate(pairs) if self._varies(number, form, place, *pair)}
        return _replaced(line, places), _replaced(other, places)

    def _varies(self, number: int, form: str, place: int, one: str, other: str) -> bool:
        known = (number, place) in self._in_line or (form, place) in self._in_form
        largest = self._largest.get((form, place), 0.0)
        return known or (largest > 0 and relative_distance(one, other) <= _TIMES * largest)


def _replaced(line: str, places: set[int]) -> str:
    parts, end = [], 0
    for place, found in enumerate(NUMBER.finditer(line)):
        if place in places:
            parts += [line[end : found.start()], _TEXT]
            end = found.end()
    return "".join([*parts, line[end:]])


def _different(one: str, other: str, relative: float) -> Iterator[tuple[int, float]]:
    """Places of the numbers that differ in two lines of one form, and how far."""
    if skeleton(one) == skeleton(other):
        for place, (a, b) in enumerate(zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)):
            if compare_lines([a], [b], relative).reasons:
                yield place, relative_distance(a, b)
