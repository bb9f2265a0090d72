"""The manifest: which files a checkpoint consists of. A folder with a manifest that its files fit is complete."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from .checksums import checksum_of_file
from .disk import Unsynced
from .errors import CheckpointError

NAME = "manifest.json"
FORMAT = 1
"""The version of the format: raised when an older runtime could misread a checkpoint."""


@dataclass(frozen=True)
class File:
    """What a file of a checkpoint must be: its bytes, and the checksum of all of them, or of the header of a file of tensors."""

    bytes: int
    checksum: int
    of_header: bool = False


@dataclass(frozen=True)
class Manifest:
    """The files of a checkpoint by their paths in the folder, and how many processes wrote it."""

    files: dict[str, File]
    processes: int
    details: dict[str, Any]

    def write(self, folder: Path, unsynced: Unsynced) -> None:
        """Write the manifest; after this the folder is complete."""
        content = {
            "format": FORMAT,
            "written_by": f"accel_runtime {__version__}",
            "written_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "processes": self.processes,
            **self.details,
            "files": {name: vars(file) for name, file in sorted(self.files.items())},
        }
        partial = folder / f".{NAME}"
        with open(partial, "w", encoding="utf-8") as target:
            json.dump(content, target, indent=1)
            target.flush()
            unsynced.add(folder / NAME, target)
        os.replace(partial, folder / NAME)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint.

    Raises:
        CheckpointError: there is none, it is damaged, or of a newer version.
    """
    path = folder / NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content["format"]
        if version > FORMAT:
            raise CheckpointError(
                f"{folder} was written by {content.get('written_by', 'a newer version')} in format {version}, and this runtime reads "
                f"up to format {FORMAT}: update accel-migrate"
            )
        files = {str(name): File(**entry) for name, entry in content["files"].items()}
        details = {key: value for key, value in content.items() if key != "files"}
        return Manifest(files, int(content["processes"]), details)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} is no complete checkpoint: it has no {NAME}") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}") from error


def path_of(folder: Path, name: str) -> Path:
    """Where the file `name` of a checkpoint is.

    Raises:
        CheckpointError: outside the folder.
    """
    path = folder / name
    if os.path.isabs(name) or ".." in Path(name).parts or not _inside(os.path.realpath(folder), os.path.realpath(path)):
        raise CheckpointError(f"{folder / NAME} names a file outside the checkpoint, {name!r}: do not load it")
    return path


def _inside(folder: str, path: str) -> bool:
    return path.startswith(os.path.join(folder, ""))


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Compare the sizes of the files, which costs next to nothing.

    Raises:
        CheckpointError: naming the first file that is missing or of another size.
    """
    for name, file in manifest.files.items():
        path = path_of(folder, name)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise CheckpointError(f"{path} is missing: {error.strerror}") from error
        if size != file.bytes:
            raise CheckpointError(f"{path} is damaged: it has {size} bytes instead of {file.bytes}")


def check_content(folder: Path, manifest: Manifest, name: str) -> Path:
    """The path of a file that is read as a whole, after a look at its checksum.

    Raises:
        CheckpointError: the file is damaged, or not in the manifest.
    """
    path = path_of(folder, name)
    if name not in manifest.files:
        raise CheckpointError(f"{folder / NAME} lists no file {name}: the checkpoint is of another kind, or incomplete")
    file = manifest.files[name]
    if not file.of_header and checksum_of_file(path) != file.checksum:
        raise CheckpointError(f"{path} is damaged: it has another checksum than the manifest says")
    return path


def files_in(folder: Path) -> Iterator[str]:
    """The files in a folder and its subfolders, by their paths in it, the manifest and hidden ones left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            relative = (Path(place) / name).relative_to(folder).as_posix()
            if relative != NAME and not name.startswith("."):
                yield relative


def describe(folder: Path, known: dict[str, File], unsynced: Unsynced) -> dict[str, File]:
    """All files in `folder`; those that are not `known` are read, and noted as `unsynced`."""
    found = {}
    for name in files_in(folder):
        path = folder / name
        if name not in known:
            unsynced.add(path)
        found[name] = known.get(name) or File(path.stat().st_size, checksum_of_file(path))
    return found
