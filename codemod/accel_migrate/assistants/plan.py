"""From what is wanted and what is there to the steps that lead from one to the other; nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from accel_migrate.assistants import blocks
from accel_migrate.assistants.manifest import Manifest, digest

WRITE, REMOVE, SAME, KEPT = "write", "remove", "same", "kept"


@dataclass(frozen=True)
class Step:
    """One path below the root; `content` is what to write there."""

    action: str
    path: str
    why: str = ""
    content: bytes = b""


@dataclass(frozen=True)
class Wanted:
    """Files of our own by path, and paths of files in which a block is wanted."""

    files: Mapping[str, bytes] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)


def plan(root: Path, wanted: Wanted, old: Manifest, new: Manifest) -> list[Step]:
    """The steps, in order of paths; what will be there is noted in `new`.

    What a person has changed or made is kept, and so is what leads out of `root` by a symbolic link.
    """
    steps: dict[str, Step] = {}
    places: set[str] = set()
    for path in sorted({*wanted.files, *old.files}):
        place = os.path.realpath(root / path)
        if path in wanted.files and place in places:
            continue  # a folder that is a link to another one of them
        places.add(place)
        steps[path] = _file(root, path, wanted.files.get(path), old, new)
    for path in sorted({*wanted.blocks, *old.blocks}):
        steps[path] = _block(root, path, wanted.blocks.get(path), old, new)
    return [steps[path] for path in sorted(steps)]


def _file(root: Path, path: str, content: bytes | None, old: Manifest, new: Manifest) -> Step:
    if _leads_out(root, path):
        return Step(KEPT, path, "a symbolic link leads out of the folder")
    there, known = _read(root / path), old.files.get(path)
    ours = there is not None and known == digest(there)
    if content is None:
        if there is None:
            return Step(SAME, path, "is gone already")
        return Step(REMOVE, path) if ours else Step(KEPT, path, "you have changed it")
    if there is None or ours or there == content:
        if there != content or known is not None:
            new.files[path] = digest(content)
        return Step(SAME, path) if there == content else Step(WRITE, path, "" if there is None else "updated", content)
    if known is not None:
        new.files[path] = known
    return Step(KEPT, path, "you have changed it" if known else "it was there before")


def _block(root: Path, path: str, text: str | None, old: Manifest, new: Manifest) -> Step:
    if _leads_out(root, path):
        return Step(KEPT, path, "a symbolic link leads out of the folder")
    there, known = _read(root / path), old.blocks.get(path)
    found = blocks.find(there) if there is not None else None
    if text is None:
        return _unwanted(path, there, found, known)
    if known is not None and found is None:
        new.blocks[path] = known
        return Step(KEPT, path, "you have taken the block out")
    if found is None or there is None:
        content, new.blocks[path] = blocks.with_block(there, text)
        return Step(WRITE, path, "a marked block" if there is None else "a marked block at its end", content)
    if known is None or found.sha256 != known.sha256:
        if known is not None:
            new.blocks[path] = known
        return Step(KEPT, path, "you have changed the block" if known else "the block was there before")
    content, new.blocks[path] = blocks.replaced(there, found, text, known)
    return Step(SAME, path) if content == there else Step(WRITE, path, "updated", content)


def _unwanted(path: str, there: bytes | None, found: blocks.Found | None, known: blocks.Block | None) -> Step:
    if there is None or found is None or known is None:
        return Step(SAME, path, "is gone already")
    if found.sha256 != known.sha256:
        return Step(KEPT, path, "you have changed the block")
    rest = blocks.without(there, found, known)
    return Step(REMOVE, path) if rest is None else Step(WRITE, path, "the block is taken out", rest)


def folders_to_make(root: Path, steps: list[Step], old: Manifest) -> list[str]:
    """Folders that do not exist and those made before, parents first."""
    parents = {parent.as_posix() for step in steps if step.action == WRITE for parent in Path(step.path).parents}
    missing = {path for path in parents if path != "." and not (root / path).exists()}
    return sorted(missing | {path for path in old.folders if (root / path).is_dir()})


def _leads_out(root: Path, path: str) -> bool:
    place = Path(os.path.realpath(root / path))
    return not place.is_relative_to(os.path.realpath(root))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def renewed(old: Manifest) -> Manifest:
    """A manifest for the same wishes that notes nothing yet."""
    return replace(old, files={}, blocks={}, folders=[])
