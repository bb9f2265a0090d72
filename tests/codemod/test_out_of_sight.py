"""Parameters that a library sorts for the optimizer belong to the model it was given."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

OPTIMIZERS = {
    "groups": "import timm.optim.optim_factory as factory\ngroups = factory.add_weight_decay(model, 0.05)\noptimizer = torch.optim.AdamW(groups, lr=0.1)\n",
    "unknown": "from somewhere import sorted_parameters\noptimizer = torch.optim.AdamW(sorted_parameters(net=model), lr=0.1)\n",
    "factory": "from timm.optim import create_optimizer_v2\noptimizer = create_optimizer_v2(model, 'sgd')\n",
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_model_is_prepared(kind: str) -> None:
    code = "model = nn.Linear(8, 2)\n" + OPTIMIZERS[kind]
    result = migrated(script("").partition("model = ")[0] + code + STEP)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after(result)
    assert "unknown-parameters" not in {f.rule for f in result.findings}


def test_what_was_wrapped_by_hand_is_prepared() -> None:
    code = """\
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from somewhere import make_optimizer
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(8, 2))
optimizer = torch.optim.SGD(make_optimizer.groups, lr=0.1)
"""
    text = after(migrated(script("").partition("model = ")[0] + code + STEP))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text


def test_two_names_for_one_model_are_prepared_once() -> None:
    code = """\
class Trainer:
    def __init__(self):
        net = nn.Linear(8, 2)
        adam = torch.optim.Adam(net.parameters())
        self.net, self.adam = net, adam
        if torch.cuda.is_available():
            self.net = self.net.cuda()

    def run(self):
        for x, y in loader:
            self.adam.zero_grad()
            F.cross_entropy(self.net(x), y).backward()
            self.adam.step()


Trainer().run()
"""
    text = after(migrated(script("").partition("model = ")[0] + code))
    assert "net, adam = self.accelerator.prepare(net, adam)" in text or "net, adam = accelerator.prepare(net, adam)" in text
    assert "self.net, " not in text.partition("prepare(")[2].partition("\n")[0]
