"""Migrate a script with the command line, in a copy of its folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_migrate.verify.job import copy_to_scratch
from e2e.places import PYTHON_PATH

TIMEOUT = 120.0
DONE, LEFT_BY_HAND, UNREADABLE, NOTHING_MIGRATED = range(4)


@dataclass(frozen=True)
class Migration:
    """What the tool did: the folder with its result, the exit code, what it printed, and the program of its JSON report."""

    folder: Path
    exit_code: int
    printed: str
    program: dict[str, Any]

    @property
    def migrated(self) -> bool:
        return self.program.get("status") == "changed"

    @property
    def findings(self) -> list[tuple[int, str]]:
        """Line (of the original) and rule of each finding."""
        return [(finding["line"], finding["rule"]) for finding in self.program.get("findings", [])]


def migrate(folder: Path, script: str, scratch: Path, *options: str, python: str = sys.executable) -> Migration:
    """Run `accel-migrate SCRIPT --write` in a copy of `folder` below `scratch`."""
    copy = Path(tempfile.mkdtemp(prefix=f"{folder.name}-migrated-", dir=scratch)) / "files"
    copy_to_scratch(folder, copy)
    report = accel_migrate(copy, script, "--format", "json", *options, python=python)
    written = accel_migrate(copy, script, "--write", *options, python=python)
    return Migration(copy, written.returncode, written.stdout + written.stderr, _program(report.stdout))


def accel_migrate(folder: Path, *args: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Run the command line in `folder`."""
    env = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [python, "-m", "accel_migrate", *args]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT)


def _program(report: str) -> dict[str, Any]:
    """The program of a report; empty where the script could not be read, and there is none."""
    try:
        programs = json.loads(report)["programs"]
    except json.JSONDecodeError:
        return {}
    return programs[0] if programs else {}
