"""Programs in which one expression or line is marked: `print(«loss»)`, `for x in loader:  # <-`."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread
from codemod.memory import facts_of

START = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dataset = TensorDataset(torch.randn(249, 8), torch.randint(2, (249,)))
loader = DataLoader(dataset, batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """\
for x, y in loader:
    optimizer.zero_grad()
    out = model(x)
    loss = F.cross_entropy(out, y)
    loss.backward()
    optimizer.step()
"""


@dataclass(frozen=True)
class Marked:
    """The facts of a program, and the expression between the marks."""

    facts: Facts
    node: ast.expr

    @property
    def spreads(self) -> set[Spread]:
        return spreads(self.facts.of(self.node))

    @property
    def roles(self) -> set[Role]:
        return {role for value in self.facts.of(self.node) if (role := self.facts.role(value)) is not None}


def script(code: str) -> str:
    """`code` below a loader, a model and an optimizer."""
    return START + "\n" + textwrap.dedent(code).strip("\n") + "\n"


def in_step(code: str) -> str:
    """`code` at the end of each step of a training loop."""
    return script(STEP + textwrap.indent(textwrap.dedent(code).strip("\n"), "    "))


def marked(text: str) -> Marked:
    """The one marked expression of a whole script."""
    before, expression, behind = text.replace("»", "«").split("«")
    facts = facts_of(before + expression + behind)
    assert facts.entry is not None
    start = _position(before)
    end = _position(before + expression)
    found = [n for n in ast.walk(facts.entry.tree) if isinstance(n, ast.expr) and _span(n) == (start, end)]
    assert found, f"no expression {expression!r}"
    return Marked(facts, found[0])


def _position(text: str) -> tuple[int, int]:
    line = text.rpartition("\n")[2]
    return text.count("\n") + 1, len(line.encode())


def _span(node: ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def marked_lines(text: str) -> set[int]:
    """Numbers of the lines that end with `# <-`."""
    return {number for number, line in enumerate(text.split("\n"), start=1) if line.endswith("# <-")}
