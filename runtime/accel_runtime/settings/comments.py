"""The comments that people have put into a configuration file, each with the setting that it stands at."""

from __future__ import annotations

from collections.abc import Mapping

from .writing import standard


def own(text: str, lines: Mapping[str, int]) -> dict[str, list[str]]:
    """Setting -> comment lines of the user's own, above it or behind its value; under "" those below the last.

    Args:
        text: the file.
        lines: setting -> the number of its line, from 1.
    """
    at = {line: name for name, line in lines.items()}
    found: dict[str, list[str]] = {}
    waiting: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            waiting += [] if standard(stripped) else [stripped]
        elif number in at:
            behind = _behind(line)
            found[at[number]] = [*waiting, *([behind] if behind else [])]
            waiting = []
    found[""] = waiting
    return {name: comments for name, comments in found.items() if comments}


def _behind(line: str) -> str:
    """The comment behind an entry, "" without one."""
    import yaml

    try:
        tokens = [token for token in yaml.scan(line) if isinstance(token, yaml.ScalarToken)]
    except yaml.YAMLError:  # the value runs on into further lines
        return ""
    rest = line[tokens[-1].end_mark.column :] if tokens else ""
    return rest[rest.index("#") :].rstrip() if "#" in rest else ""
