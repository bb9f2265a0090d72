"""Compare what two runs print and what their models end up with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from accel_migrate.verify.figures import OfOriginal, compare_figures, lines_of
from accel_migrate.verify.job import Run
from accel_migrate.verify.printed import skeleton
from accel_migrate.verify.report import MOST, Comparison, Difference, few
from accel_migrate.verify.warm import ForkingRunner


def compare_printed(original: OfOriginal, got: Run, processes: int, relative: float, result: Comparison) -> None:
    """Each line once, whichever process prints it; numbers within the noise floor of the losses, or of those at their place."""
    control = original.control or original.run
    expected, again, ours = (_printed(run) for run in (original.run, control, got))
    if len(expected) != len(ours):
        if _printed_by_every_process(original.run, expected, ours):
            result.unverified.append("printed lines: every process of the original prints its own")
        else:
            result.differences.append(Difference("lines", _count(expected, ours, processes)))
        return
    found = compare_figures(expected, again, ours, lambda: _printed(original.repeat()), relative, result, "printed lines")
    result.unverified += found.unverified
    result.largest["lines"], result.floors["lines"] = found.largest, found.floor
    result.differences += [Difference("lines", f"printed {reason}") for reason in found.reasons[:MOST]]
    if len(found.reasons) > MOST:
        result.differences.append(Difference("lines", f"and {len(found.reasons) - MOST} more printed lines"))


def _printed(run: Run) -> list[str]:
    return lines_of(run, run.lines)


def _printed_by_every_process(original: Run, expected: Sequence[str], ours: Sequence[str]) -> bool:
    """Where an original that trains on several prints a line from each, one is enough."""
    once = Counter(map(skeleton, ours))
    many = Counter({form: count * len(original.exit_codes) for form, count in once.items()})
    return len(original.exit_codes) > 1 and Counter(map(skeleton, expected)) == many


def _count(expected: Sequence[str], got: Sequence[str], processes: int) -> str:
    more = Counter(map(skeleton, got)) - Counter(map(skeleton, expected))
    fewer = Counter(map(skeleton, expected)) - Counter(map(skeleton, got))
    text = f"{len(got)} lines are printed instead of {len(expected)}"
    if len(got) == processes * len(expected) and not fewer:
        return f"{text}: every process prints them"
    examples = [f"{count} too many like {line!r}" for line, count in more.items()] + [f"{count} missing like {line!r}" for line, count in fewer.items()]
    return ": ".join([text, ", ".join(examples[:2])])


def compare_weights(warm: ForkingRunner, original: Run, control: Run | None, got: Run, relative: float, result: Comparison) -> None:
    """Parameters and buffers of the trained models at the end."""
    paths = [run.streams / "rank0.state" if run else None for run in (original, got, control)]
    if not all(path is None or path.exists() for path in paths):
        return
    expected, ours, floor = (str(path) if path else None for path in paths)
    found = warm.call("accel_migrate.verify.hooks.compare:compare_states", expected=expected, got=ours, control=floor, relative=relative)
    result.largest["weights"], result.floors["weights"] = found["largest"], found["floor"]
    result.differences += [Difference("weights", reason) for reason in few(found["reasons"])]
    if len(found["reasons"]) > MOST:
        result.differences.append(Difference("weights", f"and {len(found['reasons']) - MOST} more weights and buffers"))
