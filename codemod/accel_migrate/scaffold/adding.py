"""Launch files for a script that is there already."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.scaffold import render
from accel_migrate.scaffold.answers import check_places

_NAME = re.compile(r"""(?ms)^\[project\]\s*$.*?^name\s*=\s*["']([\w.-]+)["']""")


def launch_files(root: Path, script: str, places: Sequence[str]) -> render.Files:
    """What it takes to run `script`, a path inside the folder `root`, at `places`; jobs have the name of the project.

    Raises:
        UserError: there is no such place, or no such script.
    """
    check_places(places)
    if not (root / script).is_file():
        raise UserError(f"there is no {root / script}: give the folder of a project with a {script}")
    listed = next((name for name in ("pyproject.toml", "requirements.txt") if (root / name).is_file()), "")
    return render.launch_files(places, name_of(root), script, listed)


def name_of(root: Path) -> str:
    """The name in `pyproject.toml`, else that of the folder, in the letters that a job's name may have."""
    file = root / "pyproject.toml"
    found = _NAME.search(file.read_text(encoding="utf-8", errors="replace")) if file.is_file() else None
    name = found[1] if found else root.resolve().name
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")[:40].rstrip("-") or "training"
