"""The skill as it is installed: its files, in one of its languages."""

from __future__ import annotations

import re
from pathlib import Path

NAME = "single-gpu-to-accelerate"
LANGUAGES = {"en": "SKILL.md", "zh-CN": "SKILL.zh-CN.md"}
_PACKAGE = Path(__file__).resolve().parents[1]


def skill_folder() -> Path:
    """Where the skill is: in the installed package, or in a checkout.

    Raises:
        FileNotFoundError: it is in neither place, so the installation is damaged.
    """
    places = (_PACKAGE / ".agents" / "skills" / NAME, _PACKAGE.parents[1] / "skill" / NAME)
    for place in places:
        if place.is_dir():
            return place
    raise FileNotFoundError(f"the skill is missing from the installation (looked in {places[0]} and {places[1]})")


def skill_files(language: str = "en") -> dict[str, bytes]:
    """Path in the skill's folder -> content; `SKILL.md` is in `language`."""
    folder = skill_folder()
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if _ships(path)
    }
    files["SKILL.md"] = files[LANGUAGES[language]]
    return {name: text for name, text in files.items() if name == "SKILL.md" or name not in LANGUAGES.values()}


def version_of(skill: bytes) -> str:
    """The version in the head of a SKILL.md; empty where there is none."""
    found = re.search(rb'^  version: "?([^"\n]+)"?$', skill, re.MULTILINE)
    return found[1].decode() if found else ""


def page(name: str, language: str = "en") -> str:
    """A page of the skill: `SKILL`, or the name of a reference.

    Raises:
        KeyError: there is none of that name.
    """
    files = skill_files(language)
    return files["SKILL.md" if name == "SKILL" else f"references/{name}.md"].decode()


def page_names() -> list[str]:
    """What `page` takes."""
    return ["SKILL", *(Path(name).stem for name in skill_files() if name.startswith("references/"))]


def _ships(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts
