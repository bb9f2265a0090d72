"""`accel-migrate --add`: launch files beside what was migrated."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from accel_migrate.command.options import split_names
from accel_migrate.command.targets import output_path
from accel_migrate.errors import UserError
from accel_migrate.report.outcome import Outcome


def launch_files_for(
    outcomes: Sequence[Outcome], arguments: argparse.Namespace
) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of each program's result, and the files that `--add` asks for there, by their paths in it.

    Raises:
        UserError: there is no such place, they are there already, or two programs would share them.
    """
    from accel_migrate.scaffold.adding import launch_files
    from accel_migrate.scaffold.writing import check_free

    places = sorted(split_names(arguments.add))
    migrated = [outcome for outcome in outcomes if outcome.status != "refused"] if places else []
    if len(migrated) > 1:
        raise UserError(f"--add is for one program at a time, and these are {len(migrated)}: name one script")
    for outcome in migrated:
        source, root = outcome.project.entry, outcome.project.entry.path.parent
        texts = launch_files(root, source.path.name, places)
        target = (
            root
            if arguments.output is None
            else output_path(source, outcome.project.root, Path(arguments.output)).parent
        )
        check_free(target, texts)
        yield target, texts
