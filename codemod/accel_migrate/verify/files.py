"""Compare what two runs write: which files, by how many processes, and what they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_migrate.verify.figures import Figures, OfOriginal, allowed, compare_figures, lines_of
from accel_migrate.verify.hooks.saved import LOADED
from accel_migrate.verify.job import Run
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison, Difference, few
from accel_migrate.verify.warm import ForkingRunner

_DIGITS = re.compile(r"\d+")
TEMPORARY = "temporary files"
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.[^/]*")

_Repeated = Callable[[str], tuple[Run, Path | None]]
"""The repeated run of the original, and the file that it calls so."""


@dataclass(frozen=True)
class _Written:
    """A file that both have written: the original's, the migrated script's, and the control run's."""

    name: str
    expected: Path
    got: Path
    control: Path | None


def compare_on_disk(warm: ForkingRunner, original: OfOriginal, got: Run, relative: float, result: Comparison) -> None:
    """The files that both have written, by keys and values, and those that only one has."""
    theirs, ours, floor = _by_name(original.run), _by_name(got), _by_name(original.control) if original.control else {}
    kept = theirs.keys() & floor.keys() if theirs.keys() - floor.keys() and floor else None
    theirs, ours, floor = (_by_form(names, kept) for names in (theirs, ours, floor))
    for name in [name for name in theirs.keys() ^ ours.keys() if name.startswith(TEMPORARY)]:  # may be named at random
        theirs.pop(name, None), ours.pop(name, None)
    result.differences += [Difference("files", f"{name} is not written") for name in sorted(theirs.keys() - ours.keys())]
    result.differences += [Difference("files", f"{name} is written, and the original writes no such file") for name in sorted(ours.keys() - theirs.keys())]

    def repeated(name: str) -> tuple[Run, Path | None]:
        run = original.repeat()
        return run, _by_form(_by_name(run), kept).get(name)

    written = [_Written(name, theirs[name], ours[name], floor.get(name)) for name in sorted(theirs.keys() & ours.keys())]
    texts = {file.name: found for file in written if (found := _as_text(file, original, got, repeated, relative, result))}
    loaded = _compare_loaded(warm, [file for file in written if file.name not in texts], repeated, relative, result)
    for name, found in sorted({**texts, **loaded}.items()):
        _note(name, found, result)


def _note(name: str, found: Figures, result: Comparison) -> None:
    if found.largest >= result.largest.get("files", 0.0):
        result.largest["files"], result.floors["files"] = found.largest, found.floor
    result.differences += [Difference("files", f"{name}: {reason}") for reason in few(found.reasons)]
    result.unverified += found.unverified


def _compare_loaded(warm: ForkingRunner, written: Sequence[_Written], repeated: _Repeated, relative: float, result: Comparison) -> dict[str, Figures]:
    """What only the interpreter that trains can read; where something differs, what a repeated run has otherwise is left out."""

    def compared(files: Sequence[_Written], again: bool) -> dict[str, Figures]:
        paths = [[file.expected, file.got, file.control, repeated(file.name)[1] if again else None] for file in files]
        named = [[str(path) if path else None for path in each] for each in paths]
        found = warm.call("accel_migrate.verify.hooks.compare:compare_written", files=named, relative=relative, of_figures=allowed(relative, result))
        return {file.name: _figures(file.name, each) for file, each in zip(files, found, strict=True)}

    first = compared(written, again=False)
    differing = [file for file in written if first[file.name].reasons]
    return {**first, **compared(differing, again=True)} if differing else first


def _figures(name: str, found: dict[str, Any]) -> Figures:
    left = [f"what {name} holds ({found['error']})"] if found["error"] else []
    if found["varying"]:
        left.append(f"{len(found['varying'])} values in {name}, which depend on more than the training ({found['varying'][0]} is one)")
    return Figures(found["reasons"], found["largest"], found["floor"], left)


def _is_loaded(path: Path) -> bool:
    return path.suffix.lower() in LOADED or _EVENT_FILE.fullmatch(path.name) is not None


def _as_text(file: _Written, original: OfOriginal, got: Run, repeated: _Repeated, relative: float, result: Comparison) -> Figures | None:
    """As printed lines are compared; None where the file is no text."""
    if _is_loaded(file.expected):
        return None
    control = original.control if original.control and file.control else original.run
    try:
        expected, again, ours = _text(original.run, file.expected), _text(control, file.control or file.expected), _text(got, file.got)
    except (UnicodeDecodeError, OSError):
        return None
    if len(expected) != len(ours):
        return Figures([f"{len(ours)} lines instead of {len(expected)}"])

    def repeat() -> list[str]:
        run, place = repeated(file.name)
        return _text(run, place) if place else []

    return compare_figures(expected, again, ours, repeat, relative, result, f"lines of {file.name}")


def _text(run: Run, path: Path) -> list[str]:
    return lines_of(run, path.read_bytes().decode().splitlines())


def written_by_several(records: Sequence[Record]) -> Iterator[Difference]:
    """Files that more than one process opens for writing."""
    writers = Counter(name for record in records for name in {_EVENT_FILE.sub("events", name) for name in record.wrote})
    for name, count in sorted(writers.items()):
        if count > 1:
            yield Difference("files", f"{name} is written by {count} processes at once")


def _by_form(names: dict[str, Path], kept: Set[str] | None) -> dict[str, Path]:
    """As they are (None), or without the numbers in names other than `kept`, where two runs of the original do not write the same: times of day, say."""
    if kept is None:
        return names
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
