"""`model.module` of a wrapped model of the project is that model: its parameters, methods and results are known."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.body(x))

    def score(self, x, y):
        return F.cross_entropy(self(x), y)


net = nn.DataParallel(Net())
"""
TWO_GROUPS = """\
head = list(map(id, net.module.head.parameters()))
body = filter(lambda p: id(p) not in head, net.module.parameters())
sgd = torch.optim.SGD([{'params': body, 'lr': 0.01}, {'params': net.module.head.parameters()}], lr=0.1)
"""
PLAIN = "sgd = torch.optim.SGD(net.module.parameters(), lr=0.1)\n"
LOOP = "for x, y in loader:\n    sgd.zero_grad()\n    loss = net.module.score(x, y)\n    loss.backward()\n    sgd.step()\n    print(loss.item())\n"


@pytest.mark.parametrize("optimizer", [PLAIN, TWO_GROUPS])
def test_the_model_in_the_wrapper_is_known(optimizer: str) -> None:
    result = migrated(script(NET + optimizer + LOOP))
    assert not result.findings
    assert "loss = net.score(x, y)" in after(result)
    assert "accelerator.print(accelerator.global_mean(loss).item())" in after(result)
