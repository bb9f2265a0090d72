"""The result of one look at the machine."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes:
        status: `OK`, `WARN` (a training may suffer) or `FAIL` (a training cannot work).
        text: what is so, or what is wrong.
        mend: the line that mends it, for a shell where it can be one.
    """

    status: str
    text: str
    mend: str = ""
