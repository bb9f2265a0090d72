"""Form feeds in front of code, which libcst drops: they travel through it as comment lines."""

from __future__ import annotations

import re

_MARK = "# a form feed, until the file is put together again"


def hidden(text: str) -> str:
    """`text` with each form feed that shares its line with code as a comment line above; `shown` is the way back."""
    return re.sub(r"^\f+(?=[^\f\n])", lambda match: f"{_MARK}\n" * len(match[0]), text, flags=re.M) if "\f" in text else text


def shown(text: str) -> str:
    """The inverse of `hidden`, wherever the lines have moved."""
    return re.sub(rf"^[ \t]*{_MARK}\n", "\f", text, flags=re.M) if _MARK in text else text
