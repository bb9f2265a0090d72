"""Write a configuration file that is worth keeping under version control: in one order, each entry with its meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .table import GROUPS, SETTINGS, Setting

_HEAD = """\
# How `accel launch` starts the training in this folder. An option of the command goes before an entry of this file.
# All entries and their values: accel launch --help. Check this file after editing: accel config check
"""
_SUGGESTED = {
    "num_processes": 2,
    "mixed_precision": "bf16",
    "gradient_accumulation_steps": 4,
}
"""Settings shown as comments where they are not given, with an example."""


def written(values: Mapping[str, Any], comments: Mapping[str, Sequence[str]] | None = None) -> str:
    """The text of a file that gives `values`.

    Args:
        values: by the settings' names; those that no file holds are left out.
        comments: lines of the user's own, each with its `#`, to stand above a setting; under "" at the end.
    """
    comments = comments or {}
    blocks = [_HEAD.rstrip().splitlines()]
    for heading, settings in GROUPS.items():
        inside = list(_entries(settings, values, comments))
        if inside:
            blocks.append([f"# --- {heading} ---", *inside])
    if comments.get(""):
        blocks.append(list(comments[""]))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def standard(line: str) -> bool:
    """Whether a comment is one that `written` puts there by itself."""
    text = line.strip()
    known = {f"# {setting.help}" for setting in SETTINGS.values()} | {f"# --- {heading} ---" for heading in GROUPS}
    known |= set(_HEAD.splitlines()) | {
        _entry(SETTINGS[name], value, commented=True) for name, value in _SUGGESTED.items()
    }
    return text in known


def _entries(
    settings: Sequence[Setting], values: Mapping[str, Any], comments: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    section = ""
    for setting in settings:
        given = setting.in_file and values.get(setting.name) is not None
        if not given and setting.name not in _SUGGESTED:
            continue
        indent = "  " if setting.section else ""
        if setting.section != section:
            section = setting.section
            yield f"{section}:"
        yield from (f"{indent}{line}" for line in comments.get(setting.name, ()))
        yield f"{indent}# {setting.help}"
        yield indent + _entry(setting, values[setting.name] if given else _SUGGESTED[setting.name], commented=not given)


def _entry(setting: Setting, value: Any, commented: bool) -> str:
    import yaml

    text = yaml.safe_dump({setting.place[1]: value}, width=1000, allow_unicode=True).rstrip()
    return f"# {text}" if commented else text
