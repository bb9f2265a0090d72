"""What the launcher says when processes have failed: the first failure, and what else there is to know."""

from __future__ import annotations

import signal
from typing import Any

from .launch_notes import Note, Notes
from .launch_signals import PASSED_ON


def failed(failures: dict[int, Any], notes: Notes, processes: int) -> tuple[str, int]:
    """The text for standard error, and the exit code: that of the process which failed first.

    Tracebacks that no process has shown come first; those that say the same are shown once.

    Args:
        failures: rank -> torch's `ProcessFailure`, of the processes of this machine.
        notes: what the processes have left.
        processes: on all machines together.
    """
    failures = {**failures, **notes.unseen(failures)}
    ranks = {failure.pid: rank for rank, failure in failures.items()}
    first = notes.first(failures.values())
    code = first.exitcode
    how = f"killed by {_signal(-code)}" if code < 0 else f"with exit code {code}"
    ended = {rank: notes.of(failure.pid) for rank, failure in sorted(failures.items())}
    lines = [
        *_tracebacks(ended, ranks[first.pid], killed=code < 0 and code != -signal.SIGABRT),
        f"accel launch: process {ranks[first.pid]} of {processes} failed first, {how}; the others were stopped",
        *(f"accel launch: {remark}" for number, remark in _REMARKS.items() if code == -number),
    ]
    return "".join(f"{line}\n" for line in lines), 128 - code if code < 0 else code


_UNTAKEN = 'no handler took it: accelerator.save_on_signal("{name}") saves the state and ends the training with 0'
_REMARKS = {
    signal.SIGKILL: "SIGKILL comes from the system when memory has run out (`dmesg | tail` tells), or from a person",
    **{getattr(signal, name): _UNTAKEN.format(name=name) for name in PASSED_ON if hasattr(signal, name)},
}


def _signal(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _tracebacks(ended: dict[int, Note], first: int, killed: bool) -> list[str]:
    """What was held back, the first failure's before all; a lost peer tells nothing, unless nothing else tells the cause.

    `killed`: the first one was, and not by the abort that follows from a lost peer: that is the cause.
    """
    causes = [rank for rank, note in ended.items() if note.traceback and not note.left_alone]
    ranks = causes or [rank for rank, note in ended.items() if note.traceback and not killed]
    by_error: dict[str, list[int]] = {}
    for rank in sorted(ranks, key=lambda rank: rank != first):
        by_error.setdefault(ended[rank].error, []).append(rank)
    lines: list[str] = []
    for error, same in by_error.items():
        showing = next((rank for rank in same if ended[rank].shown), None)
        if showing is None:
            showing = same[0]
            lines += [f"process {showing}:", ended[showing].traceback.rstrip()]
        others = [rank for rank in same if rank != showing]
        if others:
            what = "the same" if len(by_error) == 1 else f"{error}, as above,"
            lines.append(f"{what} on process{'es' if len(others) > 1 else ''} {_listed(others)}")
    return lines


def _listed(ranks: list[int]) -> str:
    """`0-3, 5`."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][-1] == rank - 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(parts)
