"""Compare what two runs print, write and end up with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from accel_migrate.verify.job import Run
from accel_migrate.verify.masks import masked
from accel_migrate.verify.printed import OTHER_TEXT, Lines, compare_lines, skeleton
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison, Difference
from accel_migrate.verify.training import LOST, TIMES_THE_FLOOR
from accel_migrate.verify.varying import Varying
from accel_migrate.verify.warm import ForkingRunner

_DIGITS = re.compile(r"\d+")
_MOST = 5
"""Differences shown of one kind."""
TEMPORARY = "temporary files"
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.[^/]*")


def compare_printed(original: Run, again: Run, got: Run, processes: int, relative: float, result: Comparison) -> None:
    """Each line once, whichever process prints it; numbers that the same training prints otherwise `again` are left out.

    Others are no more exact than the losses, of which `result` knows the noise floor.
    """
    allowed = max(relative, TIMES_THE_FLOOR * result.floors.get("loss", 0.0))
    expected, ours = _lines(original), _lines(got)
    varying = Varying(expected, _lines(again), relative)
    if varying:
        result.unverified.append(f"numbers in {len(varying)} printed lines, which depend on more than the training (line {varying.first + 1} is one)")
    if len(expected) != len(ours) and _printed_by_every_process(original, expected, ours):
        result.unverified.append("printed lines: every process of the original prints its own")
        return
    if len(expected) != len(ours):
        result.differences.append(Difference("lines", _count(expected, ours, processes)))
        return
    compared = compare_lines(varying.without(expected), varying.without(ours), allowed)
    if allowed > LOST:
        result.unverified.append("printed numbers: rounding alone changes the losses as much")
        compared = Lines([reason for reason in compared.reasons if OTHER_TEXT in reason])
    result.largest["lines"] = compared.largest
    result.differences += [Difference("lines", f"printed {reason}") for reason in compared.reasons[:_MOST]]
    if len(compared.reasons) > _MOST:
        result.differences.append(Difference("lines", f"and {len(compared.reasons) - _MOST} more printed lines"))


def _printed_by_every_process(original: Run, expected: Sequence[str], ours: Sequence[str]) -> bool:
    """Where an original that trains on several prints a line from each, one is enough."""
    once = Counter(map(skeleton, ours))
    many = Counter({form: count * len(original.exit_codes) for form, count in once.items()})
    return len(original.exit_codes) > 1 and Counter(map(skeleton, expected)) == many


def _lines(run: Run) -> list[str]:
    places = [run.folder, run.folder.resolve(), run.temporary, run.temporary.resolve()]
    return masked([line for line in run.lines if line.strip()], [str(place) for place in places])


def _count(expected: Sequence[str], got: Sequence[str], processes: int) -> str:
    more = Counter(map(skeleton, got)) - Counter(map(skeleton, expected))
    fewer = Counter(map(skeleton, expected)) - Counter(map(skeleton, got))
    text = f"{len(got)} lines are printed instead of {len(expected)}"
    if len(got) == processes * len(expected) and not fewer:
        return f"{text}: every process prints them"
    examples = [f"{count} too many like {line!r}" for line, count in more.items()] + [f"{count} missing like {line!r}" for line, count in fewer.items()]
    return ": ".join([text, ", ".join(examples[:2])])


def compare_on_disk(warm: ForkingRunner, original: Run, control: Run | None, got: Run, relative: float, result: Comparison) -> None:
    """The files that both have written, by keys and values, and those that only one has."""
    theirs, ours, floor = _by_name(original), _by_name(got), _by_name(control) if control else {}
    if theirs.keys() - floor.keys() and floor:
        theirs, ours, floor = (_by_form(names, theirs.keys() & floor.keys()) for names in (theirs, ours, floor))
    for name in [name for name in theirs.keys() ^ ours.keys() if name.startswith(TEMPORARY)]:  # may be named at random
        theirs.pop(name, None), ours.pop(name, None)
    result.differences += [Difference("files", f"{name} is not written") for name in sorted(theirs.keys() - ours.keys())]
    result.differences += [Difference("files", f"{name} is written, and the original writes no such file") for name in sorted(ours.keys() - theirs.keys())]
    names = sorted(theirs.keys() & ours.keys())
    triples = [[str(theirs[name]), str(ours[name]), str(floor[name]) if name in floor else None] for name in names]
    for name, found in zip(names, warm.call("accel_migrate.verify.hooks.compare:compare_written", files=triples, relative=relative), strict=True):
        if found["error"]:
            result.unverified.append(f"what {name} holds ({found['error']})")
        result.largest["files"] = max(result.largest.get("files", 0.0), found["largest"])
        result.differences += [Difference("files", f"{name}: {reason}") for reason in _examples(found["reasons"])]


def compare_weights(warm: ForkingRunner, original: Run, control: Run | None, got: Run, relative: float, result: Comparison) -> None:
    """Parameters and buffers of the trained models at the end."""
    paths = [run.streams / "rank0.state" if run else None for run in (original, got, control)]
    if not all(path is None or path.exists() for path in paths):
        return
    expected, ours, floor = (str(path) if path else None for path in paths)
    found = warm.call("accel_migrate.verify.hooks.compare:compare_states", expected=expected, got=ours, control=floor, relative=relative)
    result.largest["weights"] = found["largest"]
    result.differences += [Difference("weights", reason) for reason in _examples(found["reasons"])]
    if len(found["reasons"]) > _MOST:
        result.differences.append(Difference("weights", f"and {len(found['reasons']) - _MOST} more weights and buffers"))


def _examples(reasons: Sequence[str]) -> list[str]:
    """A few of them, keys that are missing as well as those that are new."""
    new = [reason for reason in reasons if reason.endswith(" is new")]
    others = [reason for reason in reasons if reason not in new]
    return (others[: _MOST - min(len(new), 2)] + new)[:_MOST]


def written_by_several(records: Sequence[Record]) -> Iterator[Difference]:
    """Files that more than one process opens for writing."""
    writers = Counter(name for record in records for name in {_EVENT_FILE.sub("events", name) for name in record.wrote})
    for name, count in sorted(writers.items()):
        if count > 1:
            yield Difference("files", f"{name} is written by {count} processes at once")


def _by_form(names: dict[str, Path], kept: Set[str]) -> dict[str, Path]:
    """Without the numbers in names other than `kept`, where two runs of the original do not write the same: times of day, say."""
    forms: dict[str, Path] = {}
    for name, path in names.items():
        form = name if name in kept else _DIGITS.sub("#", name)
        forms[form if form not in forms else f"{form} ({len(forms)})"] = path
    return forms


def _by_name(run: Run) -> dict[str, Path]:
    """Written files by the name to compare them under: that of an event file holds the time and the process id.

    Temporary ones are those in the folder for them whose names the script has chosen.
    """
    names: dict[str, Path] = {}
    for file in run.written:
        name = _EVENT_FILE.sub("events", file)
        names[name if name not in names else f"{name} ({file})"] = run.folder / file
    temporary = {f"{TEMPORARY}/{name}": run.temporary / name for name in run.wrote_temporary}
    return names | temporary
