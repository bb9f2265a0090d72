"""What was installed: which files, with which content, so that what a person has changed since is known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from accel_migrate.assistants.bundle import NAME
from accel_migrate.assistants.table import SHARED
from accel_migrate.errors import UserError

PLACE = f"{SHARED}/{NAME}/.installed.json"
VERSION = 1


@dataclass(frozen=True)
class Block:
    """A marked block in a file: the hash of its text, what was put before it, and whether the file was made for it."""

    sha256: str
    glue: str = ""
    made: bool = False


@dataclass
class Manifest:
    """`files` and `blocks` by path below the root, `folders` that were made, and what the installation was asked for."""

    version: int = VERSION
    skill: str = ""
    language: str = "en"
    assistants: list[str] = field(default_factory=list)
    rules: bool = False
    pointer: bool = True
    files: dict[str, str] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.files and not self.blocks

    def as_bytes(self) -> bytes:
        return (json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n").encode()


def read_manifest(root: Path) -> Manifest:
    """The manifest of what is installed below `root`; an empty one where nothing is.

    Raises:
        UserError: it cannot be read.
    """
    path = root / PLACE
    if not path.exists():
        return Manifest()
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if values["version"] > VERSION:
            raise UserError(f"{path}: was written by a newer version of accel-migrate: update it")
        return Manifest(**{**values, "blocks": {name: Block(**block) for name, block in values["blocks"].items()}})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: cannot be read ({error}): delete it, and what it installed, by hand") from None


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
