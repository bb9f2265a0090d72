"""`# accel: ignore[RULE]` at the end of a line keeps rules off that line; without brackets, all of them."""

from __future__ import annotations

import io
import re
import tokenize

from accel_migrate.edits import Edit, Finding
from accel_migrate.places import header_lines, node_of
from accel_migrate.source import Source

_COMMENT = re.compile(r"#\s*accel:\s*ignore\b(?:\s*\[([^\]]*)\])?", re.IGNORECASE)

Suppressions = dict[int, frozenset[str]]
"""Line -> ids of the rules which are off there; an empty set means all rules."""


def suppressions(source: Source) -> Suppressions:
    """The comments of `source` which switch rules off."""
    if not _COMMENT.search(source.text):
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    found: Suppressions = {}
    for token in tokens:
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match:
            rules = (match[1] or "").split(",")
            found[token.start[0]] = frozenset(rule.strip() for rule in rules if rule.strip())
    return found


def is_suppressed(item: Edit | Finding, table: Suppressions) -> bool:
    """Whether a comment on one of the lines of `item` switches its rule off."""
    node = node_of(item)
    if not table or node is None:
        return False
    return any(line in table and (not table[line] or item.rule in table[line]) for line in header_lines(node))
