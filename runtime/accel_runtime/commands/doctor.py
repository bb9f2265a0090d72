"""`accel doctor`: what is wrong with this machine for a training, or what an error means, and the line that mends it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..doctor import checks, known_errors, machine, scripts
from ..doctor.finding import FAIL, OK, WARN, Finding
from ..launch_arguments import PROJECT_FILE
from ..settings.errors import LaunchError
from ..settings.reading import read
from . import shell

_PROGRAM = "accel doctor"
_COLOURS = {OK: "\x1b[32m", WARN: "\x1b[33m", FAIL: "\x1b[31m"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: nothing that keeps a training from working, 1: something does, 2: wrong usage."""
    return shell.guarded(_PROGRAM, lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    parser = shell.Parser(
        prog=_PROGRAM, description="Look for what keeps trainings from working here, and say what mends it."
    )
    parser.add_argument(
        "file",
        nargs="?",
        help="a script whose imports are checked too, or a log with an error to be explained (- is standard input)",
    )
    options = parser.parse_args(argv)
    if options.file and not options.file.endswith(".py"):
        return _explain(options.file)
    found = _of_script(Path(options.file)) if options.file else []
    return _report([*checks.findings(machine.look()), *_of_settings(), *found])


def _explain(file: str) -> int:
    text = sys.stdin.read() if file == "-" else _read(Path(file))
    finding = known_errors.explain(text)
    if finding is None:
        last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        print(f"this error is not known: {last.strip()}" if last else "there is no error in it")
        return 1
    print(f"{finding.text}\nmend: {finding.mend}")
    return 1


def _of_script(path: Path) -> list[Finding]:
    try:
        return scripts.findings(path, _read(path))
    except SyntaxError as error:
        raise LaunchError(f"{path}:{error.lineno}: not Python: {error.msg}") from error


def _of_settings() -> list[Finding]:
    """The configuration file of this folder."""
    path = Path(PROJECT_FILE)
    if not path.is_file():
        return []
    try:
        content = read(path)
    except LaunchError as error:
        return [Finding(FAIL, str(error), f"edit {path}")]
    wrong = [Finding(FAIL, str(problem), f"edit {path}") for problem in content.problems]
    return wrong or [Finding(OK, f"{path}: no problem")]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise LaunchError(f"cannot read {path}: {error.strerror}") from error


def _report(findings: list[Finding]) -> int:
    coloured = sys.stdout.isatty()
    for finding in findings:
        status = f"{finding.status:4}"
        print(f"{_COLOURS[finding.status]}{status}\x1b[0m" if coloured else status, finding.text)
        if finding.mend:
            print(f"       mend: {finding.mend}")
    count = Counter(finding.status for finding in findings)
    print(f"{count[FAIL]} to mend, {count[WARN]} to look at, {count[OK]} in order")
    return 1 if count[FAIL] else 0


if __name__ == "__main__":
    sys.exit(main())
