"""The Chinese README beside the English one: the same titles, blocks of code, links, commands and lists, in the same order."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
_ONLY_CHINESE = {"`accel skill install --language zh-CN`"}


def sections(path: Path) -> list[list[str]]:
    """For each title what stands below it: blocks of code as they are, items of lists, links and names in code."""
    found: list[list[str]] = []
    for part in re.split(r"(^```.*?^```$)", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL):
        if part.startswith("```"):
            found[-1].append(part)
            continue
        for line in part.splitlines():
            if line.startswith("#"):
                found.append([line.split()[0]])
            elif found:
                found[-1] += [
                    item[0]
                    for item in re.finditer(r"^(- |\d\. )|(?<=\]\()[^)]+(?=\))|`[^`]+`", line)
                    if item[0] not in _ONLY_CHINESE
                ]
    return found


def test_the_chinese_readme_says_the_same() -> None:
    english, chinese = sections(ENGLISH), sections(CHINESE)
    assert len(english) == len(chinese), "README.md and README.zh-CN.md have other sections"
    for one, other in zip(english, chinese, strict=True):
        one, other = ([text for text in texts if "README" not in text or "/" in text] for texts in (one, other))
        assert sorted(one) == sorted(other), "a section of README.md was changed: change README.zh-CN.md too"


def test_links_lead_somewhere() -> None:
    for path in (ENGLISH, CHINESE):
        for link in re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8")):
            assert (ROOT / link).exists(), link
