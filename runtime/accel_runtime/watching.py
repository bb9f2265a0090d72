"""Processes that wait for each other in different collectives: each stops with one message that names where all of them are.

A thread looks at its process's main thread every few seconds, which costs a step nothing. Only what is certain ends a training: every process has been
blocked in a collective for the whole time, and they are not in the same one. A process that computes, however long, keeps the others waiting as it should.
Seen on the CPU, where a process waits inside of the call; on accelerators the call returns at once.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from types import FrameType
from typing import Any

import torch.distributed as dist

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_TORCH = os.path.dirname(os.path.dirname(os.path.abspath(dist.__file__))) + os.sep
_COLLECTIVES = os.path.dirname(os.path.abspath(dist.__file__)) + os.sep
_VARIABLE = "ACCELERATE_HANG_SECONDS"
_SECONDS = 60.0
_KEY = "accel_runtime/waiting"
_CALLS = {
    **dict.fromkeys(("_wrapped_call_impl", "_call_impl", "forward", "__call__"), "the model's forward"),
    **dict.fromkeys(("__iter__", "__next__"), "a loop over a loader"),
    **dict.fromkeys(("__enter__", "__exit__"), "a `with` block"),
}
"""What a script calls without the name, in words."""
_GRACE = 5.0
"""Seconds in which all processes get to say where they were, before the first one leaves."""


def watch(rank: int, size: int) -> None:
    """Begin to watch this process; `ACCELERATE_HANG_SECONDS=0` does not."""
    text = os.environ.get(_VARIABLE, "") or str(_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(f"{_VARIABLE} is {text!r}: it must be a number of seconds; 0 turns it off") from None
    global _watched
    group = (os.getpid(), id(dist.GroupMember.WORLD))
    if seconds > 0 and _watched != group:
        _watched = group
        threading.Thread(target=_Watcher(rank, size, seconds).run, name="accel_runtime.watching", daemon=True).start()


_watched: tuple[int, int] | None = None
"""The process and its process group for which a thread runs."""


class _Watcher:
    def __init__(self, rank: int, size: int, seconds: float) -> None:
        self.rank, self.size, self.seconds = rank, size, seconds
        self.group = id(dist.GroupMember.WORLD)  # not the group itself, nor its store: they would outlive the training
        self.main = threading.main_thread().ident
        self.seen: Any = None
        self.since = 0.0
        self.told = ""

    def run(self) -> None:
        try:
            while True:
                time.sleep(self.seconds / 6)
                if not dist.is_initialized() or id(dist.GroupMember.WORLD) != self.group:
                    return
                if (waiting := self._look()) and (message := self._verdict(waiting)):
                    self._stop(message)
        except (RuntimeError, ValueError):  # the store went with the process that kept it, or the group was left meanwhile
            return

    def _look(self) -> list[dict[str, Any]]:
        """Where all processes are blocked, if they all are and have been for long enough."""
        frame = sys._current_frames().get(self.main or 0)
        position = (_progress(), id(frame), frame.f_lasti) if frame is not None and _in_collective(frame) else None
        if position is None or position != self.seen:
            self.seen, self.since = position, time.monotonic()
        mark = ""
        if position is not None and frame is not None and time.monotonic() - self.since >= self.seconds:
            mark = json.dumps({"operation": frame.f_code.co_name, "number": dist.GroupMember.WORLD._get_sequence_number_for_group(), "at": self.since, **_place(frame)})
        again = mark and mark == self.told
        store = dist.distributed_c10d._get_default_store()
        if mark != self.told:
            store.set(f"{_KEY}/{self.rank}", mark)
            self.told = mark
        keys = [f"{_KEY}/{rank}" for rank in range(self.size)]
        if not again or not store.check(keys):
            return []
        marks = [store.get(key).decode() for key in keys]
        return [json.loads(text) for text in marks] if all(marks) else []

    def _verdict(self, waiting: list[dict[str, Any]]) -> str:
        if len({(each["operation"], each["number"]) for each in waiting}) == 1:
            return ""  # of the same collective: a slow one
        places: dict[str, list[int]] = {}
        for rank, each in enumerate(waiting):
            places.setdefault(f"in {each['call']} at {each['line']}", []).append(rank)
        said = ", ".join(f"process{'es' * (len(ranks) > 1)} {', '.join(map(str, ranks))} {place}" for place, ranks in places.items())
        return (
            f"the processes wait for each other: {said}. Every process must make the same calls: take this one out of what only some of them "
            "run (`if accelerator.is_main_process:`, a loop of another length, a caught error)"
        )

    def _stop(self, message: str) -> None:
        error = RuntimeError(message)
        sys.excepthook(RuntimeError, error, None)
        sys.stderr.flush()
        store = dist.distributed_c10d._get_default_store()
        store.set(f"{_KEY}/told/{self.rank}", "1")
        keys = [f"{_KEY}/told/{rank}" for rank in range(self.size)]
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and not store.check(keys):
            time.sleep(0.05)
        if self.rank == 0:
            time.sleep(0.3)  # the others' store may be here
        os._exit(1)


def _progress() -> int:
    """How many collectives have begun, in all groups."""
    return sum(group._get_sequence_number_for_group() for group in list(dist.distributed_c10d._world.pg_map))


def _in_collective(frame: FrameType) -> bool:
    name = os.path.abspath(frame.f_code.co_filename)
    return name.startswith(_COLLECTIVES) or (name.startswith(_OWN) and "wait" in frame.f_code.co_names)


def _place(frame: FrameType) -> dict[str, str]:
    """The script's own line, and what it called there."""
    call: FrameType = frame
    outer: FrameType | None = frame
    while outer is not None and _is_library(outer):
        call, outer = outer, outer.f_back
    shown = outer or frame
    name = call.f_code.co_name
    return {"call": _CALLS.get(name, f"{name}()"), "line": f"{os.path.relpath(shown.f_code.co_filename)}:{shown.f_lineno}"}


def _is_library(frame: FrameType) -> bool:
    name = os.path.abspath(frame.f_code.co_filename)
    return name.startswith((_OWN, _TORCH)) or "site-packages" in name or name.endswith(("contextlib.py", "functools.py"))
