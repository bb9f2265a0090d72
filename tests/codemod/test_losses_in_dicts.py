"""A model that returns a dict of losses in training and a list with an entry for each row otherwise; long code in messages."""

from __future__ import annotations

import ast

from accel_migrate.quoting import quote
from codemod.memory import after, migrated

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader


class Finder(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 2)

    def forward(self, x, goal=None):
        out = self.head(x)
        if self.training:
            return {"fit": F.mse_loss(out, goal), "small": out.pow(2).mean()}
        return [{"best": row.argmax()} for row in out]


def main():
    loader = DataLoader(samples(), batch_size=8, shuffle=True)
    model = Finder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sums = {}
    for x, y in loader:
        found = model(x, y)
        total = sum(part for part in found.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        for key, value in found.items():
            sums[key] = sums.get(key, 0.0) + value.item()
    print(sums)


main()
"""
SCALED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Scaled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.ones(1))

    def fit(self, loader):
        kept, goals = [], []
        with torch.no_grad():
            for x, y in loader:
                kept.append(self.inner(x))
                goals.append(y)
        out, goal = torch.cat(kept), torch.cat(goals)
        optimizer = torch.optim.LBFGS([self.scale])

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(out * self.scale, goal)
            loss.backward()
            return loss

        optimizer.step(closure)


def main():
    loader = DataLoader(samples(), batch_size=8, shuffle=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    Scaled(model).fit(loader)


main()
"""


def test_losses_in_a_dict_are_no_rows() -> None:
    result = migrated(PROGRAM)
    text = after(result)
    assert "accelerator.backward(total)" in text and "accelerator.global_mean(value).item()" in text
    assert not result.findings


def test_an_optimizer_that_steps_on_collected_rows_needs_no_gradients_of_others() -> None:
    assert "unknown-parameters" not in {f.rule for f in migrated(SCALED).findings}


def test_an_optimizer_that_steps_in_each_batch_does() -> None:
    step = "    optimizer = torch.optim.SGD([parts.made()['head']], lr=0.1)\n    for x, y in loader"
    text = SCALED.replace("    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    for x, y in loader", step).replace("import torch\n", "import parts\nimport torch\n", 1)
    assert "unknown-parameters" in {f.rule for f in migrated(text).findings}


def test_long_code_is_cut_between_words() -> None:
    assert quote(ast.parse("first(one, two)").body[0]) == "first(one, two)"
    assert quote(ast.parse("first(one, two, three)").body[0], 16) == "first(one, two, ..."
    assert quote(ast.parse("for a in b:\n    c(a)").body[0]) == "for a in b"
