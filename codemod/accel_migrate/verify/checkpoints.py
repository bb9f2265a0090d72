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
        taker = runs.loading([*ours, *theirs])
        _note(taker, got.run, original.run, "the migrated script saves", "the original", result)
    if theirs:
        taker = runs.loading([*theirs, *ours], processes)
        _note(taker, original.run, got.run, "the original saves", "the migrated script", result)


def _note(taker: Traced, saver: Run, own: Run, saved_by: str, name: str, result: Comparison) -> None:
    """What `saver` has saved and `taker` does not load, though it loads what its script saves itself, in `own`."""
    if not taker.run.succeeded:
        result.unverified.append(f"whether {name} loads what {saved_by}")
        return
    tried = [(_name(Path(loaded["file"]), own), loaded) for loaded in taker.records[0].loaded if _is_of(loaded, own)]
    never = {(file, loaded["what"]) for file, loaded in tried if loaded["error"]}  # an average's state is not for the model that it averages
    for loaded in taker.records[0].loaded:
        file = _name(Path(loaded["file"]), saver)
        if not _is_of(loaded, saver) or (file, loaded["what"]) in never:
            continue
        result.loaded += 1
        if loaded["error"]:
            text = f"{file}, which {saved_by}, does not load in {name} ({loaded['what']}): {loaded['error']}"
            result.differences.append(Difference("loading", text))


def _is_of(loaded: dict[str, str], run: Run) -> bool:
    return Path(loaded["file"]) in _checkpoints(run)


def _checkpoints(run: Run) -> list[Path]:
    files = [*(run.folder / name for name in run.written), *(run.temporary / name for name in run.wrote_temporary)]
    return [file for file in files if file.suffix.lower() in TORCH_SUFFIXES]


def _name(file: Path, run: Run) -> str:
    return file.relative_to(run.folder).as_posix() if file.is_relative_to(run.folder) else file.name
