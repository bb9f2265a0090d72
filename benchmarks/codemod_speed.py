"""How fast the codemod is, against libcst on the same files.

    python benchmarks/codemod_speed.py [PATH ...] [--script FILE] [--rounds 5]

A path is a folder or a file; by default the checkout's own test programs. All figures are CPU seconds, median
[quartiles], and the contestants of a table take turns. The first table is about the training programs below the paths,
read already; the second about whole processes: the command line over the paths, files that are no training included,
and over one script.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from timing import ROOT, python_seconds, ratios, spread, table

sys.path.insert(0, str(ROOT / "codemod"))

import libcst
from libcst.metadata import MetadataWrapper, PositionProvider, QualifiedNameProvider, ScopeProvider

from accel_migrate.command.programs import find_programs
from accel_migrate.errors import UserError
from accel_migrate.migrate import migrate
from accel_migrate.project import Project, load_project
from accel_migrate.result import Options

_PARSE = "libcst.parse_module"
_PROVIDERS = (PositionProvider, ScopeProvider, QualifiedNameProvider)
_PATHS = [ROOT / "tests" / "e2e", ROOT / "examples"]
_SCRIPT = ROOT / "examples" / "digits" / "train.py"


def programs(paths: Sequence[Path], rounds: int) -> Iterator[str]:
    """The pipeline against libcst, on the files of all programs found."""
    projects = find_programs(paths, errors := [])
    texts = [source.text for project in projects for source in project.sources.values()]
    lines = sum(text.count("\n") for text in texts)
    yield f"{len(projects)} programs, {len(texts)} files, {lines} lines, {len(errors)} unreadable"
    contestants: dict[str, Callable[[], float]] = {
        _PARSE: lambda: _cpu_seconds(texts, libcst.parse_module),
        "parse, position + scope + qualified name": lambda: _cpu_seconds(texts, _resolve),
        "accel_migrate.migrate": lambda: _cpu_seconds([load_project(p.entry.path) for p in projects], _migrate),
    }
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, measure in contestants.items():
            seconds = measure()
            if number:  # the first round imports and fills caches
                times[name].append(seconds)
    over = ratios(times, _PARSE)
    rows = [[name, spread(values), spread([lines / t for t in values], 0), spread(over[name])] for name, values in times.items()]
    yield from table(["contestant", "CPU s", "lines per CPU s", f"over {_PARSE}"], rows)


def _cpu_seconds(inputs: Sequence[object], work: Callable[..., object]) -> float:
    started = time.process_time()
    for item in inputs:
        work(item)
    return time.process_time() - started


def _resolve(text: str) -> None:
    wrapper = MetadataWrapper(libcst.parse_module(text), unsafe_skip_copy=True)
    for provider in _PROVIDERS:
        wrapper.resolve(provider)


def _migrate(project: Project) -> None:
    with contextlib.suppress(UserError, RecursionError):  # the command line reports these
        migrate(project, Options())


def processes(paths: Sequence[Path], script: Path, rounds: int) -> Iterator[str]:
    """The command line, whole: start, imports, reading, report."""
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    whole, one = _lines(files), _lines([script])
    rows = []
    for name, lines, arguments in [
        (f"accel-migrate, {len(files)} files below the paths", whole, ["-m", "accel_migrate", *map(str, paths)]),
        (f"accel-migrate {script.name}", one, ["-m", "accel_migrate", str(script)]),
        (f"libcst parses {script.name}", one, ["-c", f"import libcst; libcst.parse_module(open({str(script)!r}).read())"]),
        ("python -c pass", 0, ["-c", "pass"]),
    ]:
        seconds = [python_seconds(*arguments) for _ in range(rounds)]
        rows.append([name, str(lines), spread(seconds, 3), spread([lines / t for t in seconds], 0)])
    yield from table(["process", "lines", "CPU s", "lines per CPU s"], rows)


def _lines(files: Sequence[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="default: the programs in tests/e2e and examples")
    parser.add_argument("--script", type=Path, default=_SCRIPT, help="the one script (default: the bundled example)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: 5)")
    arguments = parser.parse_args()
    paths = arguments.paths or _PATHS
    print("\n".join(programs(paths, arguments.rounds)) + "\n")
    print("\n".join(processes(paths, arguments.script, arguments.rounds)))


if __name__ == "__main__":
    main()
