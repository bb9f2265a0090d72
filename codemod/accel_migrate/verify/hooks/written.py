"""Which files the script opens for writing; linked data is copied before, so that the user's own files stay as they are."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def trace(tell: Callable[[str], None], folders: dict[str, str], home: str) -> None:
    """Watch `open` by an audit hook, and `torch.save`, which opens files past Python; in these folders, each with what to put
    in front of a file's name, as `tell` hears it. What is written to `home`, the folder that was copied, by its own path is an error.

    Files that are appended to are not recorded: several processes may hold a log open, and what they write shows in it.
    """
    import torch

    tops = {os.path.realpath(folder) + os.sep: name for folder, name in folders.items()}
    seen: set[str] = set()

    def note(path: Any, appended: bool = False) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        place = os.path.abspath(os.fsdecode(path))
        _open_linked_folders(place, [os.path.abspath(folder) for folder in folders])
        parent, name = os.path.split(place)
        place = os.path.join(os.path.realpath(parent), name)
        top = next((top for top in tops if place.startswith(top)), None)
        if top is None:
            _keep_out(place, home)
        if top is None or "__pycache__" in place:
            return
        _copy_if_linked(place)
        if place not in seen and not appended:
            seen.add(place)
            tell(os.path.join(tops[top], os.path.relpath(place, top)))

    def audit(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[2], int) and args[2] & _WRITING:
            note(args[0], appended=bool(args[2] & os.O_APPEND))

    plain = torch.save

    def save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        note(f)
        plain(obj, f, *args, **kwargs)

    torch.save = save
    sys.addaudithook(audit)


def _copy_if_linked(place: str) -> None:
    if os.path.islink(place) and os.path.isfile(place):
        target = os.path.realpath(place)
        os.unlink(place)
        shutil.copy2(target, place)


def _keep_out(place: str, home: str) -> None:
    """Of the user's own files; hidden folders (caches of libraries) and those of virtual environments are not the script's."""
    inside = os.path.relpath(place, home) if place.startswith(home + os.sep) else ".."
    if not inside.startswith(".") and "site-packages" not in inside and "__pycache__" not in inside:
        raise PermissionError(f"your files are left as they are, and the script writes {place} by its absolute path: give it a relative one")


def _open_linked_folders(place: str, tops: list[str]) -> None:
    """A folder that was linked as a whole becomes one of links before something is written to it."""
    top = next((top for top in tops if place.startswith(top + os.sep)), None)
    if top is None:
        return
    folder = top
    for part in os.path.relpath(os.path.dirname(place), top).split(os.sep):
        folder = os.path.join(folder, part)
        if os.path.islink(folder):
            target = os.path.realpath(folder)
            os.unlink(folder)
            os.mkdir(folder)
            for name in os.listdir(target):
                os.symlink(os.path.join(target, name), os.path.join(folder, name))
