"""What `accel-migrate` makes of a script, for a run that writes it nowhere but into the scratch copy."""

from __future__ import annotations

from pathlib import Path

from accel_migrate.errors import UserError
from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options
from accel_migrate.source import Source


def migrated_texts(script: Path) -> dict[Path, str]:
    """The new texts of the files that the migration changes; none where the script is accelerated already.

    Raises:
        UserError: nothing was migrated.
    """
    result = migrate(load_project(script), Options())
    if not result.changes and result.status != "unchanged":
        raise UserError(f"{script}: {result.reason or 'nothing to change'}; give the migrated script as the second one")
    return {change.source.path: text_to_run(change.source, change.after) for change in result.changes}


def text_to_run(source: Source, text: str) -> str:
    """A text of `source` as a script, which tells the cells of a notebook."""
    return text if source.notebook is None else source.notebook.marked_script(text)
