"""A marked block in a file that holds other text: found, put in, taken out, byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accel_migrate.assistants.manifest import Block, digest
from accel_migrate.assistants.rules import BEGIN, END

_BLOCK = re.compile(re.escape(BEGIN.encode()) + rb".*?" + re.escape(END.encode()) + rb"(?:\r?\n|$)", re.DOTALL)


@dataclass(frozen=True)
class Found:
    """Where a block is in a file."""

    start: int
    end: int
    sha256: str


def find(content: bytes) -> Found | None:
    """The block in `content`."""
    found = _BLOCK.search(content)
    return None if found is None else Found(found.start(), found.end(), _hash(found[0]))


def with_block(content: bytes | None, text: str) -> tuple[bytes, Block]:
    """A file with the block `text` at its end, and its record; None is a file that is not there."""
    end = b"\r\n" if content and b"\r\n" in content else b"\n"
    block = text.encode().replace(b"\n", end)
    before = content or b""
    glue = b"" if not before else end if before.endswith(end) else end + end
    return before + glue + block, Block(_hash(block), glue.decode(), content is None)


def replaced(content: bytes, found: Found, text: str, record: Block) -> tuple[bytes, Block]:
    """The file with another text in the place of its block."""
    end = b"\r\n" if b"\r\n" in content[found.start : found.end] else b"\n"
    block = text.encode().replace(b"\n", end)
    return content[: found.start] + block + content[found.end :], Block(_hash(block), record.glue, record.made)


def without(content: bytes, found: Found, record: Block) -> bytes | None:
    """The file as it was before; None where it was made for the block and holds nothing else."""
    before, after = content[: found.start].removesuffix(record.glue.encode()), content[found.end :]
    rest = before + after
    return None if record.made and not rest.strip() else rest


def _hash(block: bytes) -> str:
    return digest(block.replace(b"\r\n", b"\n").rstrip(b"\n"))
