"""The pages of docs/checks and the examples in them.

`PYTHONPATH=codemod:tests python -m check.pages` writes the table of the rules into README.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from accel_migrate.check.check import Checked, Wanted, check
from accel_migrate.check.rules import all_checks
from codemod.memory import program
from documented import BORDER, Folder, blocks, marked_lines, unmarked

DOCUMENTED = Folder("checks")


@dataclass(frozen=True)
class Example:
    """One block of code of a page; `kind` is the title above it: Bad, Good or Fixed."""

    page: str
    kind: str
    code: str

    @property
    def start(self) -> str:
        """What the block follows: imports, and unless it makes an accelerator itself, the objects which README.md makes."""
        imports, objects = DOCUMENTED.preludes()
        return imports + BORDER if "Accelerator(" in self.code else f"{imports}\n{objects}{BORDER}"

    @property
    def marked_lines(self) -> set[int]:
        """Lines of the whole script that carry the mark `# <-`."""
        return marked_lines(self.start + self.code)

    def checked(self, library: str = "accelerate", wanted: Wanted | None = None) -> Checked:
        """What the linter says of the whole script, written for `library`."""
        text = unmarked(self.start + self.code).replace("from accelerate", f"from {library}")
        return check(program(text), wanted or Wanted())

    def mended(self) -> str:
        """The example after all fixes of its rule."""
        wanted = Wanted(select=frozenset({self.page}), fix=True, unsafe=True)
        return self.checked(wanted=wanted).project.entry.text.rpartition(BORDER)[2]


def examples(*kinds: str) -> list[Example]:
    """The blocks of these kinds of all pages, in order."""
    found = [Example(page, *block) for page, text in DOCUMENTED.pages().items() for block in blocks(text)]
    return [example for example in found if not kinds or example.kind in kinds]


def fixes() -> list[tuple[Example, Example]]:
    """Each Bad block with the Fixed block below it."""
    every = examples()
    return [(bad, fixed) for bad, fixed in pairwise(every) if fixed.kind == "Fixed"]


def table() -> str:
    """The rules, as README.md lists them."""
    fixable = {bad.page for bad, _ in fixes()}
    rows = [
        f"| [{c.id}]({c.id}.md) | {c.title} | {c.severity.value} | {'yes' if c.id in fixable else ''} |"
        for c in all_checks()
    ]
    return "\n".join(["| rule | finds | severity | fix |", "| --- | --- | --- | --- |", *rows])


if __name__ == "__main__":
    DOCUMENTED.index.write_text(
        re.sub(
            r"^(RULES|\| rule \|.*?\n(?=\n))",
            lambda _: table() + "\n",
            DOCUMENTED.index.read_text(),
            count=1,
            flags=re.MULTILINE | re.DOTALL,
        )
    )
