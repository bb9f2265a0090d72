"""What a setting of a launch is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .kinds import Kind


@dataclass(frozen=True)
class Setting:
    """One thing that can be set.

    Attributes:
        name: the option `--name` of `accel launch`.
        kind: what values it takes.
        help: what it does, in one line: for `--help` and for the comment in a file.
        default: the value where nothing was given; None where the launcher or the script decides.
        section: the mapping of a file that holds it; "" is the file itself.
        key: its name in a file, where it is not `name`.
        variable: the environment variable by which the processes learn the value.
        in_file: whether it may stand in a file.
        on_command_line: whether it is an option of `accel launch`.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    section: str = ""
    key: str = ""
    variable: str = ""
    in_file: bool = True
    on_command_line: bool = True

    @property
    def place(self) -> tuple[str, str]:
        """Section and key in a file."""
        return self.section, self.key or self.name
