"""Objects that only some branches of a choice make."""

from __future__ import annotations

import textwrap

from accel_migrate.result import Options
from codemod.memory import after, migrated

TOP = """\
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader


def train(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def warm_up(extra, loader):
    train(extra, loader, torch.optim.SGD(extra.parameters(), lr=0.1))


def main(kind):
    loader = DataLoader(data, batch_size=8)
    model = nn.Linear(4, 4)
"""
END = """
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))


main(sys.argv[1])
"""


def _main(choice: str) -> str:
    text = after(migrated(TOP + textwrap.indent(textwrap.dedent(choice).strip("\n"), "    ") + END))
    return text.partition("def main(")[2]


def test_what_is_trained_in_its_branch_is_prepared_there() -> None:
    text = _main("""
        if kind == "one":
            extra = nn.Linear(4, 4)
            warm_up(extra, loader)
        elif kind == "two":
            extra = nn.Bilinear(4, 4, 4)
            warm_up(extra, loader)
        elif kind == "three":
            raise ValueError(kind)
    """)
    assert text.count("extra = accelerator.prepare(extra)\n        warm_up(extra, loader") == 2


def test_what_every_branch_makes_is_prepared_behind_the_choice() -> None:
    text = _main("""
        if kind == "one":
            extra = nn.Linear(4, 4)
        elif kind == "two":
            extra = nn.Bilinear(4, 4, 4)
        else:
            raise ValueError(kind)
        warm_up(extra, loader)
    """)
    line = next(line for line in text.partition("raise ValueError")[2].splitlines() if "prepare(" in line)
    assert line.startswith("    ") and not line.startswith("     ") and "extra" in line


WRAPPED = """
class Scaled(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return self.inner(x) * self.scale


model = nn.Linear(4, 4)
if len(sys.argv) > 1:
    {name} = Scaled(model)
    {more}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8)
train(model, loader, optimizer)
"""


def test_a_model_that_is_wrapped_in_one_branch_only_is_prepared_behind_it() -> None:
    text = after(migrated(TOP.partition("def warm_up")[0] + WRAPPED.format(name="model", more="model.train()")))
    assert "\nmodel, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


def test_a_model_that_is_trained_by_itself_and_in_a_whole_of_one_branch_is_prepared_always() -> None:
    text = TOP.partition("def warm_up")[0] + WRAPPED.format(name="both", more="train(both, other, torch.optim.SGD(both.parameters(), lr=0.1))")
    text = text.replace("model = nn.Linear", "other = DataLoader(data, batch_size=8)\nmodel = nn.Linear")
    lines = [line.strip() for line in after(migrated(text)).splitlines() if "prepare(" in line]
    assert any(line.startswith("model") for line in lines) and any("both" in line for line in lines)
    result = migrated(text, Options(target="accelerate"))
    assert "accelerate-models" in {finding.rule for finding in result.findings}
