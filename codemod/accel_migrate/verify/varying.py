"""Numbers in printed lines that two runs of one training do not share: durations, memory, whatever else depends on more than it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from accel_migrate.verify.printed import NUMBER, compare_lines, skeleton

_OFTEN = 0.3
"""Of the lines of one form: from here on the number varies in all of them, also where two runs happen to agree."""


class Varying:
    """Learnt from the lines of a run and of another one of the same training, by the lines' form and the number's place in it."""

    def __init__(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        self._in_line: set[tuple[int, int]] = set()
        self._in_form: set[tuple[str, int]] = set()
        if len(lines) == len(again):
            self._learn(lines, again, relative)

    def __len__(self) -> int:
        return len({line for line, _ in self._in_line})

    @property
    def first(self) -> int:
        """Number of the first such line, from 0."""
        return min(line for line, _ in self._in_line)

    def without(self, lines: Sequence[str]) -> list[str]:
        """`lines` with these numbers replaced by the same text."""
        return [self._without(number, line) for number, line in enumerate(lines)]

    def _learn(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        forms = Counter(map(skeleton, lines))
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, (one, other) in enumerate(zip(lines, again, strict=True)):
            for place in _different(one, other, relative):
                found[skeleton(one), place].append(number)
        for (form, place), numbers in found.items():
            self._in_line |= {(number, place) for number in numbers}
            if len(numbers) > _OFTEN * forms[form]:
                self._in_form.add((form, place))

    def _without(self, number: int, line: str) -> str:
        form, parts, end = skeleton(line), [], 0
        for place, found in enumerate(NUMBER.finditer(line)):
            if (number, place) in self._in_line or (form, place) in self._in_form:
                parts += [line[end : found.start()], "<varies>"]
                end = found.end()
        return "".join([*parts, line[end:]])


def _different(one: str, other: str, relative: float) -> Iterator[int]:
    """Places of the numbers that differ in two lines of one form."""
    if skeleton(one) == skeleton(other):
        for place, (a, b) in enumerate(zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)):
            if compare_lines([a], [b], relative).reasons:
                yield place
