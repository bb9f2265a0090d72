"""Comments that switch rules off: `# accel: ignore[RULE]` for its line, `# accel: ignore-file[RULE]` for the file.

Several rules are separated by commas; without brackets it is all of them.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator

from accel_migrate.edits import Edit, Finding
from accel_migrate.places import header_lines, node_of
from accel_migrate.source import Source

_COMMENT = re.compile(r"#\s*accel:\s*ignore(-file)?\b(?!-)(?:\s*\[([^\]]*)\])?", re.IGNORECASE)

WHOLE_FILE = 0
"""The line under which the comments for the file stand."""

Suppressions = dict[int, frozenset[str]]
"""Line -> ids of the rules which are off there; an empty set means all rules."""


def suppressions(source: Source) -> Suppressions:
    """The comments of `source` which switch rules off."""
    found: Suppressions = {}
    for line, rules in _comments(source):
        known = found.get(line, rules)
        found[line] = known | rules if known and rules else frozenset()
    return found


def is_suppressed(item: Edit | Finding, table: Suppressions) -> bool:
    """Whether a comment for the file, or on one of the lines of `item`, switches its rule off."""
    if not table:
        return False
    node = node_of(item)
    lines = (WHOLE_FILE, *(header_lines(node) if node is not None else ()))
    return any(line in table and (not table[line] or item.rule in table[line]) for line in lines)


def named_rules(source: Source) -> Iterator[tuple[int, str]]:
    """Each rule which a comment names, with the line of the comment, or `WHOLE_FILE`."""
    for line, rules in _comments(source):
        yield from ((line, rule) for rule in sorted(rules))


def _comments(source: Source) -> Iterator[tuple[int, frozenset[str]]]:
    if not _COMMENT.search(source.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            rules = frozenset(rule.strip() for rule in (match[2] or "").split(",") if rule.strip())
            yield (WHOLE_FILE if match[1] else token.start[0]), rules
