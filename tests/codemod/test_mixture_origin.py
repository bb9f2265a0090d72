"""The finding on a loss that mixes reductions names the expression that mixes them."""

from __future__ import annotations

import pytest

from accel_migrate.result import Options
from codemod.marked import script
from codemod.memory import migrated

STEP = """\
class Root(nn.Module):
    def forward(self, out, y):
        return torch.sqrt(F.mse_loss(out, y))


criterion = Root()
for x, y in loader:
    out = model(x)
    loss = F.cross_entropy(out, y)
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

LOCAL = Options(ignore=frozenset({"whole-batch-loss"}))


@pytest.mark.parametrize(
    ("loss", "named"),
    [
        ("loss = (loss - 0.1).abs() + 0.1", "`(loss - 0.1).abs()` (train.py:20)"),
        ("loss = criterion(out, y)", "`torch.sqrt(F.mse_loss(out, y))` (train.py:13)"),
        ("root = loss.sqrt()\n    loss = 2 * root", "`loss.sqrt()` (train.py:20)"),
    ],
)
def test_the_expression_is_named(loss: str, named: str) -> None:
    findings = [f for f in migrated(script(STEP.replace("{loss}", loss)), LOCAL).findings if f.rule == "mixed-reduction"]
    assert len(findings) == 1
    assert f" by {named}: no single weight" in findings[0].message
