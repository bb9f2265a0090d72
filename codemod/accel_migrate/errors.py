"""The one exception meant for a user's eyes, and how an error of our own is put into one line."""

from __future__ import annotations

import os

DEBUG = "ACCEL_MIGRATE_DEBUG"
"""Environment variable that makes an internal error a traceback."""


class UserError(Exception):
    """Something the user can put right. The text is one line: what was given, what is wrong, what to do."""


def internal_error(error: Exception) -> str:
    """One line about an error which is no fault of the user; raises it instead where `DEBUG` is set."""
    import traceback

    if os.environ.get(DEBUG):
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:200]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return f"internal error: {type(error).__name__}: {text} (in {where}); please report what {DEBUG}=1 prints"
