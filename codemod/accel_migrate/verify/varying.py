"""Numbers in lines that say little about the training: those which rounding moves as far, and those of the clock and the machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from accel_migrate.verify.printed import NUMBER, compare_lines, relative_distance, skeleton

_OFTEN = 0.3
"""Of the lines of one form: from here on the number varies in all of them, also where two runs happen to agree."""
_TIMES = 10.0
"""A number may differ by so many times what numbers at its place in lines of its form do in the control run."""
_TEXT = "<varies>"
Pair = tuple[list[str], list[str]]


class Spread:
    """How far the control run takes numbers, by the lines' form and the number's place in it."""

    def __init__(self, lines: Sequence[str], control: Sequence[str]) -> None:
        self._largest: dict[tuple[str, int], float] = defaultdict(float)
        pairs = zip(lines, control, strict=True) if len(lines) == len(control) else ()
        for one, other in pairs:
            for place, (a, b) in enumerate(_numbers(one, other)):
                key = skeleton(one), place
                self._largest[key] = max(self._largest[key], relative_distance(a, b))

    @property
    def most(self) -> float:
        return max(self._largest.values(), default=0.0)

    def without(self, lines: Sequence[str], others: Sequence[str]) -> Pair:
        """`lines`, and as many `others` of another run, with numbers replaced by the same text where they differ no more than so."""
        return _without(lines, others, self._explains)

    def _explains(self, number: int, form: str, place: int, one: str, other: str) -> bool:
        return 0 < relative_distance(one, other) <= _TIMES * self._largest.get((form, place), 0.0)


class Varying:
    """What another run of the very same training does not reproduce: durations, memory, names drawn at random."""

    def __init__(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        self._in_line: set[tuple[int, int]] = set()
        self._in_form: set[tuple[str, int]] = set()
        self._whole: set[int] = set()
        if len(lines) == len(again):
            self._learn(lines, again, relative)

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def first(self) -> int:
        """Number of the first such line, from 0."""
        return min(self._lines)

    @property
    def _lines(self) -> set[int]:
        return self._whole | {line for line, _ in self._in_line}

    def without(self, lines: Sequence[str], others: Sequence[str]) -> Pair:
        """`lines`, and as many `others` of another run, with these numbers replaced by the same text."""
        pair = _without(lines, others, lambda number, form, place, *_: (number, place) in self._in_line or (form, place) in self._in_form)
        left, right = ([_TEXT if number in self._whole else line for number, line in enumerate(each)] for each in pair)
        return left, right

    def _learn(self, lines: Sequence[str], again: Sequence[str], relative: float) -> None:
        forms = Counter(map(skeleton, lines))
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for number, (one, other) in enumerate(zip(lines, again, strict=True)):
            if skeleton(one) != skeleton(other):
                self._whole.add(number)
            for place, (a, b) in enumerate(_numbers(one, other)):
                if compare_lines([a], [b], relative).reasons:
                    found[skeleton(one), place].append(number)
        for (form, place), numbers in found.items():
            self._in_line |= {(number, place) for number in numbers}
            if len(numbers) > _OFTEN * forms[form]:
                self._in_form.add((form, place))


def _without(lines: Sequence[str], others: Sequence[str], varies: Callable[[int, str, int, str, str], bool]) -> Pair:
    left, right = [], []
    for number, (line, other) in enumerate(zip(lines, others, strict=True)):
        form = skeleton(line)
        places = {place for place, pair in enumerate(_numbers(line, other)) if varies(number, form, place, *pair)}
        left.append(_replaced(line, places))
        right.append(_replaced(other, places))
    return left, right


def _numbers(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Pairs of numbers at the same place, in two lines of one form."""
    if skeleton(one) == skeleton(other):
        yield from zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)


def _replaced(line: str, places: set[int]) -> str:
    parts, end = [], 0
    for place, found in enumerate(NUMBER.finditer(line)):
        if place in places:
            parts += [line[end : found.start()], _TEXT]
            end = found.end()
    return "".join([*parts, line[end:]])
