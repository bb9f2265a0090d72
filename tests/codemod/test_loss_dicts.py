"""Losses that a model returns in a dict are added up: means give a mean."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 2)

    def forward(self, x, y=None):
        out = self.body(x)
        if self.training:
            return {"loss_a": F.cross_entropy(out, y, reduction="REDUCTION"), "loss_b": out.pow(2).REDUCTION()}
        return [{"label": row.argmax(), "scores": row} for row in out]


net = Net()
"""
STEP = """\
sums = {}
for x, y in loader:
    losses = net(x, y)
    loss = sum(l for l in losses.values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for k, v in losses.items():
        sums[k] = sums.get(k, 0.0) + v.item()
print(sums)
"""


@pytest.mark.parametrize(("reduction", "how"), [("mean", ""), ("sum", ', reduction="sum"')])
def test_losses_of_a_dict_keep_their_reduction(reduction: str, how: str) -> None:
    result = migrated(script(NET.replace("REDUCTION", reduction) + STEP))
    assert not result.findings
    assert f"accelerator.backward(loss{how})\n" in after(result)
    assert f"+ accelerator.global_{reduction}(v).item()\n" in after(result)


def test_losses_of_a_dict_from_elsewhere_may_be_means_or_sums() -> None:
    step = STEP.partition("    for k")[0]
    result = migrated(script("from detectors import Detector\n\nnet = Detector()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n" + step))
    assert {finding.rule for finding in result.findings} == {"unknown-reduction"}
    assert "accelerator.backward(loss)\n" in after(result)
