"""What else a script does with the files of its checkpoints."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.facts.values import Role
from accel_migrate.same_file import path_argument, same_file
from accel_migrate.states.loaded import Loaded
from accel_migrate.states.problem import Unconvertible
from accel_migrate.states.saved import Saved, sites_of

_COPIES = ("shutil.copy", "shutil.copyfile", "shutil.copy2")
_MOVES = ("os.replace", "os.rename", "shutil.move", "os.remove", "os.unlink", "os.link", "os.symlink")


def check_weights(context: Context, loaded: Loaded) -> None:
    """`model.load_state_dict(torch.load("best.pt")["model"])`: of the only model."""
    from accel_migrate.rules.prepare import prepared_sites

    models = {site for site, role in prepared_sites(context) if role is Role.MODEL}
    if (
        loaded.others
        or loaded.reads
        or len(loaded.restored) != 1
        or len(models) != 1
        or not sites_of(context, loaded.restored[0].object) & models
    ):
        raise Unconvertible(
            loaded.calls[0],
            "a part of a checkpoint is loaded that is not the only model",
            "read it by accelerator.load_model, or keep the file format",
        )


def copies(context: Context, saves: list[Saved]) -> Iterator[ast.Call]:
    """`shutil.copyfile(path, best)` in the function that has saved `path`, as a statement."""
    functions = {context.facts.function(s.call): s for s in saves}
    for call in context.calls_of(*_COPIES):
        saved = functions.get(context.facts.function(call))
        source, target = path_argument(call, 0, "src"), path_argument(call, 1, "dst")
        if saved is None or source is None or target is None or not isinstance(context.facts.parents[call], ast.Expr):
            continue
        if ast.unparse(source) == ast.unparse(saved.path):
            yield call


def check_files(context: Context, saves: list[Saved], copied: list[ast.Call]) -> None:
    """Nothing else may take checkpoints for files."""
    for call in context.calls_of(*_COPIES, *_MOVES):
        paths = [path for path in (path_argument(call, 0, "src"), path_argument(call, 1, "dst")) if path is not None]
        if call not in copied and any(same_file(context, path, s.path) for path in paths for s in saves):
            raise Unconvertible(
                call,
                "a checkpoint is moved, copied or removed as a file, and a state is a folder",
                "drop it: save_state replaces a state in one step, and ProjectConfiguration(total_limit=N) removes old ones",
            )
