"""Losses that are modules of the project: in evaluation they are given the rows of all processes, as functions are."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

ROOT = """\
class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.mse = nn.MSELoss()

    def forward(self, p, t):
        return torch.sqrt(self.mse(p, t) + 1e-6)


root = Root()
"""
CORRELATION = """\
class Root(nn.Module):
    def forward(self, p, t):
        return 1 - torch.corrcoef(torch.stack([p, t]))[0, 1]


root = Root()
"""


@pytest.mark.parametrize("loss", [ROOT, CORRELATION])
def test_a_root_of_a_mean_in_evaluation_is_that_of_the_whole_batch(loss: str) -> None:
    result = migrated(script(loss + STEP + "total = 0.0\nwith torch.no_grad():\n    for x, y in loader:\n        p = model(x)\n        total += root(p[:, 0], y.float()).item()\nprint(total)"))
    assert not result.findings
    assert "        p = model(x)\n        p, y = accelerator.gather_for_metrics((p, y))\n        total += root(p[:, 0], y.float()).item()\n" in after(result)


def test_a_loss_module_around_the_model_is_given_the_gathered_output() -> None:
    result = migrated(script(ROOT + STEP + "total = 0.0\nfor x, y in loader:\n    total += root(model(x)[:, 0], y.float()).item()\nprint(total)"))
    assert not result.findings
    assert "    output, y = accelerator.gather_for_metrics((model(x), y))\n    total += root(output[:, 0], y.float()).item()\n" in after(result)
