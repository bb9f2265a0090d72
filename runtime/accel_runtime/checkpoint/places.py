"""Where checkpoints are: names, numbers, the newest complete one, and which are too many."""

from __future__ import annotations

import re
from pathlib import Path

from ..kwargs import ProjectConfiguration
from .errors import CheckpointError
from .manifest import NAME, check_sizes, read_manifest
from .staging import recover, remove

_NUMBERED = re.compile(r"checkpoint_(\d+)")


def numbered_folder(project: ProjectConfiguration) -> Path:
    """The folder in which states are numbered.

    Raises:
        ValueError: there is no project folder.
    """
    if project.project_dir is None:
        raise ValueError(
            "no folder was given and there is no project folder: pass one, or Accelerator(project_dir=...)"
        )
    return Path(project.project_dir) / "checkpoints"


def numbers(folder: Path) -> list[int]:
    """The numbers that are taken, in order."""
    if not folder.is_dir():
        return []
    return sorted(int(found[1]) for path in folder.iterdir() if (found := _NUMBERED.fullmatch(path.name)))


def target_of(project: ProjectConfiguration, output_dir: str | None) -> tuple[Path, bool]:
    """Where the next state goes, and whether it must be new there.

    Numbers go on from the highest there is, or from `ProjectConfiguration(iteration=...)` if that is higher; nothing is overwritten.
    """
    if project.automatic_checkpoint_naming:
        folder = numbered_folder(project)
        taken = numbers(folder)
        number = max(project.iteration, taken[-1] + 1 if taken else 0)
        return folder / f"checkpoint_{number}", True
    if output_dir is None:
        return numbered_folder(project) / "checkpoint", False
    target = Path(output_dir).expanduser()
    if target.exists() and not target.is_dir():
        raise CheckpointError(f"{target} is a file: save_state needs the name of a folder")
    if target.exists() and any(target.samefile(each) for each in _working_folders()):
        raise CheckpointError(
            f"save_state was given {output_dir!r}, in which this process works: give it a folder of its own, such as {str(target / 'state')!r}"
        )
    return target, False


def _working_folders() -> list[Path]:
    try:
        return [Path.cwd(), *Path.cwd().parents]
    except OSError:  # it was removed
        return []


def next_number(target: Path) -> Path:
    """The next name in the series."""
    return target.parent / f"checkpoint_{numbers(target.parent)[-1] + 1}"


def number_of(target: Path) -> int:
    return int(_NUMBERED.fullmatch(target.name)[1])  # type: ignore[index]


def candidates(folder: Path) -> list[Path]:
    """The complete checkpoints in a folder, newest first: by number if they are numbered, else by time of saving."""
    if (folder / NAME).is_file():
        return [folder]
    found = (
        [path for path in folder.iterdir() if (path / NAME).is_file() and not path.name.startswith(".")]
        if folder.is_dir()
        else []
    )
    named = [_NUMBERED.fullmatch(path.name) for path in found]
    if all(named):
        return sorted(found, key=number_of, reverse=True)
    return sorted(found, key=read_manifest_time, reverse=True)


def read_manifest_time(path: Path) -> str:
    """When a checkpoint was saved; empty if its manifest cannot be read."""
    try:
        return str(read_manifest(path).details.get("written_at", ""))
    except CheckpointError:
        return ""


def prune(folder: Path, limit: int | None) -> None:
    """Remove the oldest numbered states beyond `limit`: never the only complete ones."""
    if limit is None:
        return
    complete = [number for number in numbers(folder) if is_complete(folder / f"checkpoint_{number}")]
    keep = set(complete[-max(limit, 1) :])
    for number in numbers(folder):
        if number not in keep and keep and number < max(keep):
            remove(folder / f"checkpoint_{number}")


def is_complete(folder: Path) -> bool:
    """Whether a checkpoint has all its files, in their sizes."""
    try:
        check_sizes(folder, read_manifest(folder))
    except CheckpointError:
        return False
    return True


def existing(input_dir: str) -> Path:
    """The folder that was asked for, brought back if a kill has interrupted its replacement.

    Raises:
        CheckpointError: there is none.
    """
    folder = Path(input_dir).expanduser()
    recover(folder)
    if folder.is_file():
        raise CheckpointError(
            f"{folder} is a file, and load_state reads the folder that save_state has written: load a file of torch.save as it was saved, "
            "and call save_state once to have a state of it"
        )
    if not folder.is_dir():
        raise CheckpointError(f"Tried to find {folder} but folder does not exist")
    return folder
