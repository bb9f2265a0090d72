"""Values that the branches of a choice give: devices from the user's settings, variables of a step, tuples beside tensors."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

AUTO = """\
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

class Trainer:
    def __init__(self, config, model):
        if config.device == "auto":
            self.device = "cuda" if torch.cuda.is_available() else "cpu"
        else:
            self.device = config.device
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def run(self):
        for x, y in DataLoader(dataset, batch_size=4):
            loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

Trainer(config, nn.Linear(8, 2)).run()
"""


def test_a_device_of_the_user_s_own_choice_is_the_cpu_only_where_they_say_so() -> None:
    text = after(migrated(AUTO))
    assert 'cpu=config.device == "cpu"' in text and "cpu=not" not in text


@pytest.mark.parametrize(
    "choice",
    [
        "if long:\n    x, y, kind = batch\nelse:\n    x, y = batch",
        "if long:\n    x, y, kind = batch\nelif short:\n    x, y = batch\nelse:\n    raise ValueError(batch)",
    ],
)
def test_what_every_branch_sets_starts_anew_with_the_batch(choice: str) -> None:
    lines = (
        choice
        + "\nx = x.float()\nloss = F.cross_entropy(model(x), y)\noptimizer.zero_grad()\nloss.backward()\noptimizer.step()"
    ).replace("\n", "\n    ")
    text = after(migrated(script(f"for batch in loader:\n    {lines}\n")))
    assert "gather" not in text and "accelerator.backward(loss)" in text


def test_what_one_branch_sets_goes_on_to_the_next_batch() -> None:
    text = after(migrated(in_step("if x.ndim > 1:\n    scale = x.mean()\nscale = 0.9 * scale + x.mean()")))
    assert "0.9 * scale + accelerator.global_mean(x.mean())" in text


def test_each_process_checks_its_own_rows() -> None:
    text = after(migrated(in_step("assert x.max().item() < 9")))
    assert "assert x.max().item() < 9" in text


def test_a_tensor_beside_a_tuple_is_not_taken_apart() -> None:
    net = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x, parts=False):
        first = self.body(x)
        out = self.head(first)
        if parts:
            return [x, first, out], out
        return out

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
    step = STEP.replace(
        "out = model(x)", "parts, out = model(x, parts=True)\n    sizes = [p.mean(1) for p in parts[1:-1]]"
    )
    assert "row-mixing" not in {f.rule for f in migrated(script(net + step)).findings}


def test_of_moves_beside_each_other_only_those_that_change_something_stay() -> None:
    text = after(migrated(script(STEP.replace("    out = model(x)", "    x, y = x.cuda(), y.cuda().long()\n    out = model(x)"))))
    assert "\n    y = y.long()\n" in text


def test_a_device_among_the_variables_that_a_module_looks_up_stays_a_string() -> None:
    text = after(migrated(script("device = 'cuda'\nexec(open('overrides.py').read())\nmodel.to(device)\n" + STEP.replace("model(x)", "model(x.to(device))"))))
    assert "device = PartialState().device.type\n" in text or "device = accelerator.device.type\n" in text
