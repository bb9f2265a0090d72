"""Compare what two runs print, write and end up with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from accel_migrate.verify.job import Run
from accel_migrate.verify.masks import masked
from accel_migrate.verify.printed import compare_lines, skeleton
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison, Difference
from accel_migrate.verify.warm import ForkingRunner

_MOST = 5
"""Differences shown of one kind."""
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.[^/]*")


def compare_printed(original: Run, control: Run, got: Run, processes: int, relative: float, result: Comparison) -> None:
    """Each line once, whichever process prints it; numbers which the control run does not reproduce are left out."""
    expected, ours, floor = (_lines(run) for run in (original, got, control))
    varying = _varying(expected, floor, relative)
    if varying:
        result.unverified.append(f"{len(varying)} printed lines whose numbers depend on more than the training (line {min(varying) + 1} is one)")
    if len(expected) != len(ours):
        result.differences.append(Difference("lines", _count(expected, ours, processes)))
        return
    kept = [number for number in range(len(expected)) if number not in varying]
    compared = compare_lines([expected[n] for n in kept], [ours[n] for n in kept], relative)
    result.largest["lines"] = compared.largest
    result.differences += [Difference("lines", f"printed {reason}") for reason in compared.reasons[:_MOST]]
    if len(compared.reasons) > _MOST:
        result.differences.append(Difference("lines", f"and {len(compared.reasons) - _MOST} more printed lines"))


def _lines(run: Run) -> list[str]:
    return masked([line for line in run.lines if line.strip()], [str(run.folder), str(run.folder.resolve())])


def _varying(expected: Sequence[str], control: Sequence[str], relative: float) -> set[int]:
    """Lines which differ between the original and its control run, though most are the same."""
    if len(expected) != len(control):
        return set()
    pairs = enumerate(zip(expected, control, strict=True))
    different = {n for n, (a, b) in pairs if compare_lines([a], [b], relative).reasons}
    return different if len(different) <= len(expected) / 2 else set()


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


def _by_name(run: Run) -> dict[str, Path]:
    """Written files by the name to compare them under: that of an event file holds the time and the process id."""
    names: dict[str, Path] = {}
    for file in run.written:
        name = _EVENT_FILE.sub("events", file)
        names[name if name not in names else f"{name} ({file})"] = run.folder / file
    return names
