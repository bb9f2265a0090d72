"""The scripts to verify as the command line names them: files, or modules with -m."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel_migrate.errors import UserError


@dataclass(frozen=True)
class Named:
    """A script; `module` is its dotted name in the folder `home`, where it is to run as `python -m` does."""

    file: Path
    module: str = ""
    home: str = "."


def script_named(name: str, is_module: bool) -> Named:
    """What `python name` runs, or what `python -m name` does.

    Raises:
        UserError: there is no such module.
    """
    if not is_module:
        return Named(Path(name))
    module = ".".join(Path(name).with_suffix("").parts) if name.endswith(".py") else name
    return Named(file_of(module), module)


def migrated_named(name: str, original: Named) -> Named:
    """The second script, of the same kind as the first one.

    Where its module is the original's in another folder (`migrated.a.b` for `a.b`), it runs as that module of that folder, so that
    the project's own imports find what stands beside it.
    """
    found = script_named(name, bool(original.module))
    home = found.module.removesuffix(f".{original.module}")
    return Named(found.file, original.module, home.replace(".", "/")) if original.module and home != found.module else found


def file_of(module: str) -> Path:
    """The file that `python -m module` runs in the working directory.

    Raises:
        UserError: there is none.
    """
    stem = Path(*module.split("."))
    for file in (stem / "__main__.py", stem.with_suffix(".py") if stem.name else stem):
        if file.is_file():
            return file
    raise UserError(f"there is no module {module} in this folder ({stem}.py): -m runs modules of the working directory")
