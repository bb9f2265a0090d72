"""Run the codemod over a folder of scripts, and print what came out of each.

    python benchmarks/corpus.py PATH [PATH ...] [--seconds 60] [--csv FILE] [--option=--unsafe]

A folder is searched for programs as `accel-migrate` does it. Columns: `outcome` (changed, unchanged, refused, unreadable,
crashed, too slow), edits, findings, whether the result compiles and whether a second run leaves it alone, CPU seconds per
1,000 lines of the program, and the reason or the error. Nothing is written beside the scripts.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "codemod"))

from accel_migrate.command.cli import main as accel_migrate
from accel_migrate.command.discover import discover, entries
from accel_migrate.command.targets import output_path
from accel_migrate.errors import UserError
from accel_migrate.project import Project, load_project


@dataclass
class Row:
    """What came out of one program; `compiles` and `stable` are empty where nothing was written."""

    script: str
    lines: int = 0
    outcome: str = ""
    edits: int = 0
    findings: int = 0
    compiles: str = ""
    stable: str = ""
    seconds_per_1000: float = 0.0
    reason: str = ""


class TooSlow(Exception):
    """The time for one script is over."""


def measure(project: Project, limit: float, options: Sequence[str]) -> Row:
    """Migrate one program into a scratch folder, twice."""
    row = Row(_short(project.entry.path), sum(source.text.count("\n") for source in project.sources.values()))
    with tempfile.TemporaryDirectory() as scratch:
        started = time.process_time()
        try:
            with _time_limit(limit):
                report = _report([str(project.entry.path), "--output", scratch, *options])
        except TooSlow:
            row.outcome = "too slow"
            return row
        except Exception as error:
            row.outcome, row.reason = "crashed", _place(error)
            return row
        row.seconds_per_1000 = (time.process_time() - started) / max(row.lines, 1) * 1000
        _fill(row, report)
        if row.outcome == "changed":
            entry = output_path(project.entry, project.root, Path(scratch))
            row.compiles = _yes(all(_compiles(path) for path in Path(scratch).rglob("*.py")))
            row.stable = _yes(_is_stable(entry, Path(scratch), options))
    return row


def _report(argv: list[str]) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()) as errors:
        accel_migrate([*argv, "--format", "json"])
    text = printed.getvalue()
    return json.loads(text) if text.startswith("{") else {"programs": [], "errors": [errors.getvalue()]}


def _fill(row: Row, report: dict[str, Any]) -> None:
    if not report["programs"]:
        row.outcome, row.reason = "unreadable", " ".join(report["errors"])
        return
    program = report["programs"][0]
    row.outcome, row.reason = program["status"], program["reason"]
    row.edits = sum(len(file["edits"]) for file in program["files"])
    row.findings = len(program["findings"])


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _compiles(path: Path) -> bool:
    try:
        compile(path.read_bytes(), str(path), "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _is_stable(entry: Path, folder: Path, options: Sequence[str]) -> bool:
    """Whether the tool leaves its own output alone."""
    before = {path: path.read_bytes() for path in folder.rglob("*.py")}
    try:
        _report([str(entry), "--write", *options])
    except Exception:
        return False
    return before == {path: path.read_bytes() for path in folder.rglob("*.py")}


def _yes(answer: bool) -> str:
    return "yes" if answer else "NO"


def _place(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"


def _short(path: Path) -> str:
    """As it was given, but not longer than its last four parts."""
    return str(Path(*path.parts[-4:]))


def programs(paths: Sequence[Path]) -> tuple[list[Project], list[Row]]:
    """The programs of these folders and files, and rows for files which cannot be read."""
    projects, unreadable = [], []
    for path in discover(paths):
        try:
            projects.append(load_project(path))
        except UserError as error:
            unreadable.append(Row(_short(path), outcome="unreadable", reason=str(error)))
    given = {os.path.realpath(path) for path in paths if path.is_file()}
    named = [project for project in projects if os.path.realpath(project.entry.path) in given]
    return named + [project for project in entries(projects) if project not in named], unreadable


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as text in columns, and totals."""
    header = [field.name.replace("_", " ") for field in fields(Row)]
    cells = [[_cell(value) for value in asdict(row).values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    for line in [header, *cells]:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()[:240]
    yield ""
    yield from totals(rows)


def totals(rows: Sequence[Row]) -> Iterator[str]:
    """How many were migrated, left with findings, refused and why, and what is right of all that was written."""
    counts = Counter(row.outcome for row in rows)
    changed = [row for row in rows if row.outcome == "changed"]
    others = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("refused", "unchanged", "unreadable", "too slow", "crashed"))
    yield f"{len(rows)} programs: {len(changed)} migrated ({sum(row.findings > 0 for row in changed)} of them left with findings), {others}"
    for reason, count in Counter(_kind(row.reason) for row in rows if row.outcome == "refused").most_common():
        yield f"    refused {count}: {reason}"
    yield f"output compiles: {sum(row.compiles == 'yes' for row in changed)} of {len(changed)}"
    yield f"second run changes nothing: {sum(row.stable == 'yes' for row in changed)} of {len(changed)}"
    timed = [row for row in rows if row.seconds_per_1000]
    seconds, lines = sum(row.seconds_per_1000 * row.lines for row in timed) / 1000, sum(row.lines for row in timed)
    yield f"{seconds / max(lines, 1) * 1000:.2f} CPU seconds per 1,000 lines ({lines} lines in {seconds:.1f} s)"


def _kind(reason: str) -> str:
    """`reason` without the place that it names."""
    return re.sub(r"\S*[/\w]\.(py|ipynb):[\w: ]*\d+:? ?", "", " ".join(reason.split()))[:150]


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else " ".join(str(value).split())


def write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def warm_up() -> None:
    """Import what a migration imports, so that the first script does not pay for it."""
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch, "train.py")
        script.write_text("import torch\nfor x in torch.utils.data.DataLoader([1.0]):\n    x.backward()\n")
        _report([str(script)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a script, or a folder to search for some")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit for one script (default: 60)")
    parser.add_argument("--csv", type=Path, help="write the rows there, too")
    parser.add_argument("--option", action="append", default=[], help="passed on, for example --option=--unsafe")
    arguments = parser.parse_args()
    os.environ["ACCEL_MIGRATE_DEBUG"] = "1"  # a crash must reach us as an exception
    warm_up()
    projects, rows = programs(arguments.paths)
    for project in projects:
        rows.append(measure(project, arguments.seconds, arguments.option))
        print(f"{rows[-1].outcome:10} {rows[-1].script}", file=sys.stderr)
    print("\n".join(table(rows)))
    if arguments.csv:
        write_csv(rows, arguments.csv)


if __name__ == "__main__":
    main()
