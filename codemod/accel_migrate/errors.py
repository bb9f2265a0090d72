"""The one exception meant for a user's eyes."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can put right. The text is one line: what was given, what is wrong, what to do."""
