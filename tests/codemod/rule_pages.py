"""The pages of docs/rules and the examples in them.

`PYTHONPATH=codemod:tests python -m codemod.rule_pages` writes into each After block what the tool makes of the block above.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from accel_migrate.migrate import migrate
from accel_migrate.result import Options, Result
from codemod.memory import after, notebook, program
from documented import BORDER, Folder, blocks, marked_lines, unmarked

DOCUMENTED = Folder("rules")


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
        return "" if "DataLoader(" in self.code and "import torch\n" in self.code else prelude() + BORDER

    @property
    def marked_lines(self) -> set[int]:
        """Lines of the whole script that carry the mark `# <-`."""
        return marked_lines(self.start + self.code)

    def migrated(self) -> Result:
        """What the tool makes of the whole script."""
        text = self.start + unmarked(self.code)
        return migrate((notebook if self.in_notebook else program)(text), self.options)

    def after(self) -> str:
        """The lines of the example in the result."""
        return after(self.migrated()).rpartition(BORDER)[2]


def prelude(number: int = 0) -> str:
    """The lines before an example that makes no loader: as README.md gives them, or (1) migrated."""
    return DOCUMENTED.preludes()[number]


def examples() -> list[Example]:
    """The blocks of all pages, in order."""
    found = []
    for page, text in DOCUMENTED.pages().items():
        options = Options(
            target="accelerate" if "Only with `--target accelerate`" in text else "accel_runtime",
            checkpoint="state" if "Only with `--checkpoint state`" in text else "file",
        )
        in_notebook = "In notebooks only" in text
        found += [Example(page, *block, options, in_notebook) for block in blocks(text)]
    return found


def _update() -> None:
    for page, text in DOCUMENTED.pages().items():
        blocks = [example for example in examples() if example.page == page]
        for before, old in pairwise(blocks):
            if old.kind == "After":
                text = text.replace(
                    f"## After\n\n```python\n{old.code}```", f"## After \n\n```python\n{before.after()}```", 1
                )
        (DOCUMENTED.index.parent / f"{page}.md").write_text(text.replace("## After \n", "## After\n"))


if __name__ == "__main__":
    _update()
