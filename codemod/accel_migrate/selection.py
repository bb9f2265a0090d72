"""Which rules run and what they may say: `--select`, `--ignore` and the ids there are."""

from __future__ import annotations

import difflib
from functools import cache

from accel_migrate.result import Options
from accel_migrate.rules import Rule, all_rules


@cache
def known_rules() -> dict[str, str]:
    """The id and the title of every rule, and of what rules report under other ids; by id."""
    titles = {rule.id: rule.title for rule in all_rules()}
    for rule in all_rules():
        titles.update(rule.findings)
    return dict(sorted(titles.items()))


def unknown_rule(name: str) -> str:
    """What to say of an id that there is not, with those that look like it."""
    close = difflib.get_close_matches(name, known_rules(), n=3, cutoff=0.5)
    guess = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"unknown rule {name}{guess}"


def runs(rule: Rule, options: Options) -> bool:
    """Whether `rule` is to run: it or one of its findings is selected, and it is not ignored."""
    selected = not options.select or rule.id in options.select or not options.select.isdisjoint(rule.findings)
    return selected and rule.id not in options.ignore


def is_wanted(name: str, options: Options) -> bool:
    """Whether edits and findings with the id `name` are kept. A selected rule brings its findings with it."""
    if name in options.ignore:
        return False
    return not options.select or name in options.select or any(name in r.findings for r in all_rules() if r.id in options.select)
