"""The code blocks of the skill's pages, each with the program that it stands in.

A block which imports torch is a program. Any other stands in place of `# block` in the program of its page and heading in
contexts/PAGE.txt; there `result` is what the program computes. Where a block has a part `# wrong` and a part `# right`, these are two blocks.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SKILL = Path(__file__).parents[2] / "skill" / "single-gpu-to-accelerate"
CONTEXTS = Path(__file__).parent / "contexts"
_FENCE = re.compile(r"^(?P<heading>#+ [^\n]+)$|^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^=== (.+)\n", re.MULTILINE)
_PLACE = re.compile(r"^( *)# block$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One block of a page; `number` counts those of a language below one heading."""

    page: str
    heading: str
    language: str
    code: str
    number: int = 1

    @property
    def name(self) -> str:
        return f"{self.page}: {self.heading}{'' if self.number == 1 else f' ({self.number})'}"

    @property
    def is_program(self) -> bool:
        return "import torch" in self.code

    @property
    def rule(self) -> str:
        """The rule of the linter which the heading names."""
        found = re.search(r"`([a-z-]+)`$", self.heading)
        return found[1] if found else ""

    @property
    def halves(self) -> tuple[str, str]:
        """What is wrong (empty where the block is right as a whole), and what is right."""
        wrong, mark, right = self.code.partition("# right")
        return (wrong, mark + right) if mark else ("", self.code)

    def inside(self, code: str) -> str:
        """The whole program with `code` in the place of the block."""
        if self.is_program:
            return code
        context = contexts(self.page)[self.name.partition(": ")[2]]
        program, places = _PLACE.subn(lambda place: textwrap.indent(code.rstrip(), place[1]), context)
        assert places == 1, self.name
        return program if "import torch" in program else contexts("start")["start"] + program


def pages() -> list[str]:
    """Paths of all pages below the skill's folder."""
    return sorted(str(path.relative_to(SKILL)) for path in SKILL.rglob("*.md") if "zh" not in path.name)


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page, in order."""
    heading, counts = "", Counter[tuple[str, str]]()
    for found in _FENCE.finditer((SKILL / page).read_text(encoding="utf-8")):
        if found["heading"]:
            heading = found["heading"].lstrip("# ")
        else:
            counts[heading, found["language"]] += 1
            yield Block(Path(page).stem, heading, found["language"], found["code"], counts[heading, found["language"]])


@cache
def contexts(page: str) -> dict[str, str]:
    """Programs by heading."""
    file = CONTEXTS / f"{page}.txt"
    _, *parts = _SECTION.split(file.read_text()) if file.exists() else [""]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def python_blocks() -> list[Block]:
    """All blocks of Python, of all pages."""
    return [block for page in pages() for block in blocks(page) if block.language == "python"]


def needs_accelerate(block: Block) -> bool:
    """Whether the program of the block imports Hugging Face Accelerate."""
    return "from accelerate import" in block.inside(block.code)
