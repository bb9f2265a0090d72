"""The pages of docs/rules and the examples in them.

`PYTHONPATH=codemod:tests python -m codemod.rule_pages` writes into each After block what the tool makes of the block above.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from accel_migrate.migrate import migrate
from accel_migrate.result import Options, Result
from codemod.memory import after, notebook, program

FOLDER = Path(__file__).parents[2] / "docs" / "rules"
INDEX = FOLDER / "README.md"
_BLOCK = re.compile(r"^(?:## (?P<kind>\w+)\n\n)?```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"  # <-$", re.MULTILINE)
_BORDER = "\n# example\n\n"
"""Between README.md's lines and those of an example; the tool leaves comments alone."""


@dataclass(frozen=True)
class Example:
    """One block of code of a page; `kind` is the title above it: Before, After, Finding or Instead."""

    page: str
    kind: str
    code: str
    options: Options
    in_notebook: bool = False

    @property
    def start(self) -> str:
        """What the block follows: nothing, or the lines which README.md gives."""
        return "" if "DataLoader(" in self.code and "import torch\n" in self.code else prelude() + _BORDER

    @property
    def marked_lines(self) -> set[int]:
        """Lines of the whole script that carry the mark `# <-`."""
        lines = (self.start + self.code).split("\n")
        return {number for number, line in enumerate(lines, start=1) if _MARK.search(line)}

    def migrated(self) -> Result:
        """What the tool makes of the whole script."""
        text = self.start + _MARK.sub("", self.code)
        return migrate((notebook if self.in_notebook else program)(text), self.options)

    def after(self) -> str:
        """The lines of the example in the result."""
        return after(self.migrated()).rpartition(_BORDER)[2]


def pages() -> dict[str, str]:
    """Id -> text."""
    return {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path != INDEX}


@cache
def prelude(number: int = 0) -> str:
    """The lines before an example that makes no loader: as README.md gives them, or (1) migrated."""
    return [match["code"] for match in _BLOCK.finditer(INDEX.read_text())][number]


def examples() -> list[Example]:
    """The blocks of all pages, in order."""
    found = []
    for page, text in pages().items():
        options = Options(target="accelerate" if "Only with `--target accelerate`" in text else "accel_runtime")
        in_notebook = "In notebooks only" in text
        found += [Example(page, match["kind"], match["code"], options, in_notebook) for match in _BLOCK.finditer(text)]
    return found


def _update() -> None:
    for page, text in pages().items():
        blocks = [example for example in examples() if example.page == page]
        for before, old in pairwise(blocks):
            if old.kind == "After":
                text = text.replace(f"## After\n\n```python\n{old.code}```", f"## After \n\n```python\n{before.after()}```", 1)
        (FOLDER / f"{page}.md").write_text(text.replace("## After \n", "## After\n"))


if __name__ == "__main__":
    _update()
