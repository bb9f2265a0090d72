"""How a project lies on disk: what its script is called, and where Python looks for its modules."""

from __future__ import annotations

import os
from pathlib import Path

_ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_INSTALLED = {"site-packages", "dist-packages"}


def entry_name(entry: Path) -> tuple[str, Path]:
    """The dotted name of the script and the folder which holds its first part."""
    folder = _folder(entry)
    parts = [entry.stem]
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), folder


def _folder(entry: Path) -> Path:
    """Python looks for modules beside the real script, also when it is started through a symbolic link."""
    return Path(os.path.realpath(entry)).parent


def search_path(entry: Path, base: Path) -> list[Path]:
    """The script's folder, then its ancestors up to the project root (for `python -m pkg.train`), then `src/` there.

    Relative to the working directory where `entry` is, so that reports name modules the way the user names the script.
    """
    folder = _folder(entry)
    root = _project_root(folder) or base
    path = [folder]
    while folder != root and folder.parent != folder and folder.parent.name not in _INSTALLED:
        folder = folder.parent
        path.append(folder)
    if (root / "src").is_dir():
        path.append(root / "src")
    return path if entry.is_absolute() else [Path(os.path.relpath(folder)) for folder in path]


def is_installed(folder: Path) -> bool:
    """Whether packages are installed there, one beside the other."""
    return Path(os.path.realpath(folder)).name in _INSTALLED


def _project_root(folder: Path) -> Path | None:
    """The nearest ancestor with a project file in it."""
    for candidate in (folder, *folder.parents):
        if any((candidate / marker).exists() for marker in _ROOT_MARKERS):
            return candidate
    return None
