"""Which files the script opens for writing; linked data is copied before, so that the user's own files stay as they are."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_migrate.verify.hooks.tracing import Recorder

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def trace(recorder: Recorder, folders: dict[str, str]) -> None:
    """Watch `open` by an audit hook, and `torch.save`, which opens files past Python; in these folders, each with what to put
    in front of a file's name.

    Files that are appended to are not recorded: several processes may hold a log open, and what they write shows in it.
    """
    import torch

    tops = {os.path.realpath(folder) + os.sep: name for folder, name in folders.items()}
    seen: set[str] = set()

    def note(path: Any, appended: bool = False) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        place = os.path.abspath(os.fsdecode(path))
        parent, name = os.path.split(place)
        place = os.path.join(os.path.realpath(parent), name)
        top = next((top for top in tops if place.startswith(top)), None)
        if top is None or "__pycache__" in place:
            return
        _copy_if_linked(place)
        if place not in seen and not appended:
            seen.add(place)
            recorder.write(wrote=os.path.join(tops[top], os.path.relpath(place, top)))

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
