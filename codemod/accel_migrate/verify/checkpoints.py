"""Does a checkpoint of either script load in the other?"""

from __future__ import annotations

from pathlib import Path

from accel_migrate.verify.hooks.unpickled import TORCH_SUFFIXES
from accel_migrate.verify.job import Run
from accel_migrate.verify.report import Comparison, Difference
from accel_migrate.verify.runs import Runs, Traced


def compare_checkpoints(runs: Runs, processes: int, original: Traced, got: Traced, result: Comparison) -> None:
    """Try it, in short runs of both; `result` receives what does not load, and how many states do."""
    theirs, ours = _checkpoints(original.run), _checkpoints(got.run)
    if ours:
        _note(runs.loading(ours), got.run, "the migrated script saves", "the original", result)
    if theirs:
        _note(runs.loading(theirs, processes), original.run, "the original saves", "the migrated script", result)


def _note(taker: Traced, saver: Run, saved_by: str, name: str, result: Comparison) -> None:
    if not taker.run.succeeded:
        result.unverified.append(f"whether {name} loads what {saved_by}")
        return
    for loaded in taker.records[0].loaded:
        result.loaded += 1
        if loaded["error"]:
            file = _name(Path(loaded["file"]), saver)
            text = f"{file}, which {saved_by}, does not load in {name} ({loaded['what']}): {loaded['error']}"
            result.differences.append(Difference("loading", text))


def _checkpoints(run: Run) -> list[Path]:
    files = [*(run.folder / name for name in run.written), *(run.temporary / name for name in run.wrote_temporary)]
    return [file for file in files if file.suffix.lower() in TORCH_SUFFIXES]


def _name(file: Path, run: Run) -> str:
    return file.relative_to(run.folder).as_posix() if file.is_relative_to(run.folder) else file.name
