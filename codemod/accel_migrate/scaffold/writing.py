"""Write rendered files where nothing is yet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from accel_migrate.errors import UserError

Files = Mapping[str, str]
"""Path inside the folder -> text."""


def write(root: Path, files: Files) -> list[Path]:
    """Write all files below `root`; scripts for a shell can be executed. Returns their paths.

    Raises:
        UserError: one of them is there already, or the folder cannot be written; nothing has been replaced.
    """
    check_free(root, files)
    written = []
    try:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
            if text.startswith("#!"):
                path.chmod(0o755)
            written.append(path)
    except OSError as error:
        raise UserError(f"cannot write {error.filename or root}: {error.strerror}") from None
    return written


def check_free(root: Path, files: Files) -> None:
    """Raise a UserError if one of the files is there already."""
    if there := [name for name in files if (root / name).exists()]:
        raise UserError(f"{root / there[0]} is there already, and nothing is overwritten{_more(there)}")


def _more(there: list[str]) -> str:
    if len(there) == 1:
        return ""
    rest = f" and {len(there) - 6} more" if len(there) > 6 else ""
    return f" (there too: {', '.join(there[1:6])}{rest})"
