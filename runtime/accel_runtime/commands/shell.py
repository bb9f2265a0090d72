"""What the commands share: arguments whose errors are one line, exit codes, files written whole or not at all."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ..settings.errors import LaunchError
from ..settings.kinds import Kind


class Parser(argparse.ArgumentParser):
    """Reports what is wrong in one line, without the usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise LaunchError(f"{message} (see {self.prog} --help)")


def guarded(program: str, body: Callable[[], int]) -> int:
    """Run `body`; what the user has to mend is one line on standard error, and exit code 2."""
    try:
        return body()
    except LaunchError as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def reader(kind: Kind) -> Callable[[str], Any]:
    """How argparse reads a value of this kind."""

    def read(text: str) -> Any:
        try:
            return kind.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def needs(package: str, extra: str = "runtime") -> None:
    """Raise a LaunchError with the line that installs `package`, unless it is there."""
    if importlib.util.find_spec(package) is None:
        raise LaunchError(f"needs {package}; install it with: pip install 'accel-migrate[{extra}]'")


def write(path: Path, text: str) -> None:
    """Write `text` to `path` in one step.

    Raises:
        LaunchError: the folder is not there, or not to be written in.
    """
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
        if path.exists():
            os.chmod(file.name, path.stat().st_mode)
        else:
            os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    except OSError as error:
        raise LaunchError(f"cannot write {path}: {error.strerror}") from error
