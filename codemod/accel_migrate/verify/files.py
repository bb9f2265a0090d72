"""Compare what two runs write: which files, by how many processes, and what they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

from accel_migrate.verify.figures import Figures, allowed, compare_figures, lines_of
from accel_migrate.verify.hooks.saved import LOADED
from accel_migrate.verify.job import Run
from accel_migrate.verify.printed import Lines
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison, Difference, few
from accel_migrate.verify.warm import ForkingRunner

_DIGITS = re.compile(r"\d+")
TEMPORARY = "temporary files"
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.[^/]*")


def compare_on_disk(warm: ForkingRunner, original: Run, control: Run | None, got: Run, relative: float, result: Comparison) -> None:
    """The files that both have written, by keys and values, and those that only one has."""
    theirs, ours, floor = _by_name(original), _by_name(got), _by_name(control) if control else {}
    if theirs.keys() - floor.keys() and floor:
        theirs, ours, floor = (_by_form(names, theirs.keys() & floor.keys()) for names in (theirs, ours, floor))
    for name in [name for name in theirs.keys() ^ ours.keys() if name.startswith(TEMPORARY)]:  # may be named at random
        theirs.pop(name, None), ours.pop(name, None)
    result.differences += [Difference("files", f"{name} is not written") for name in sorted(theirs.keys() - ours.keys())]
    result.differences += [Difference("files", f"{name} is written, and the original writes no such file") for name in sorted(ours.keys() - theirs.keys())]
    loaded = []
    for name in sorted(theirs.keys() & ours.keys()):
        triple = theirs[name], ours[name], floor.get(name)
        found = None if _is_loaded(theirs[name]) else _as_text(name, (original, got, control or original), triple, relative, result)
        if found is None:
            loaded.append((name, triple))
        else:
            _note(name, found.lines.reasons, found.lines.largest, allowed(relative, result) / 10, result)
            result.unverified += found.unverified
    _compare_loaded(warm, loaded, relative, result)


def _compare_loaded(warm: ForkingRunner, named: Sequence[tuple[str, tuple[Path, Path, Path | None]]], relative: float, result: Comparison) -> None:
    """What only the interpreter that trains can read."""
    triples = [[str(path) if path else None for path in triple] for _, triple in named]
    compared = warm.call("accel_migrate.verify.hooks.compare:compare_written", files=triples, relative=relative, of_figures=allowed(relative, result))
    for (name, _), found in zip(named, compared, strict=True):
        if found["error"]:
            result.unverified.append(f"what {name} holds ({found['error']})")
        if found["varying"]:
            result.unverified.append(f"{len(found['varying'])} values in {name}, which depend on more than the training ({found['varying'][0]} is one)")
        _note(name, found["reasons"], found["largest"], found["floor"], result)


def _note(name: str, reasons: Sequence[str], largest: float, floor: float, result: Comparison) -> None:
    if largest >= result.largest.get("files", 0.0):
        result.largest["files"], result.floors["files"] = largest, floor
    result.differences += [Difference("files", f"{name}: {reason}") for reason in few(reasons)]


def _is_loaded(path: Path) -> bool:
    return path.suffix.lower() in LOADED or _EVENT_FILE.fullmatch(path.name) is not None


def _as_text(name: str, runs: tuple[Run, Run, Run], paths: tuple[Path, Path, Path | None], relative: float, result: Comparison) -> Figures | None:
    """As printed lines are compared; None where one of the files is no text."""
    try:
        texts = [(path or paths[0]).read_bytes().decode().splitlines() for path in paths]
    except (UnicodeDecodeError, OSError):
        return None
    expected, got, again = (lines_of(run, text) for run, text in zip(runs, texts, strict=True))
    if len(expected) != len(got):
        return Figures(Lines([f"{len(got)} lines instead of {len(expected)}"]), [])
    return compare_figures(expected, again, got, relative, result, f"lines of {name}")


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
