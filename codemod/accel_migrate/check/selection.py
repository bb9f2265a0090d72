"""The ids of the linter's rules, and what to say of one that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from accel_migrate.errors import UserError


def is_check(name: str) -> bool:
    """Whether the linter has a rule `name`."""
    return name in known_checks()


def known_checks() -> dict[str, str]:
    """Id -> title of every rule of the linter."""
    from accel_migrate.check.rules import all_checks

    return {check.id: check.title for check in all_checks()}


def page_folder(name: str) -> str:
    """The folder of the page about `name`: a rule of the linter, or what a migration left to do by hand."""
    return "docs/checks" if is_check(name) else "docs/rules"


def _left_open() -> dict[str, str]:
    from accel_migrate.selection import known_rules

    return known_rules()


def checked_names(names: Iterable[str], where: str) -> frozenset[str]:
    """`names`, all of which are rules.

    Raises:
        UserError: one of them is none.
    """
    wanted = frozenset(names)
    for name in sorted(wanted):
        if not is_check(name) and name not in _left_open():
            close = difflib.get_close_matches(name, {*known_checks(), *_left_open()}, n=3, cutoff=0.5)
            guess = f" (did you mean {' or '.join(close)}?)" if close else ""
            raise UserError(f"{where}: unknown rule {name}{guess}; accel check --list-rules lists them")
    return wanted
