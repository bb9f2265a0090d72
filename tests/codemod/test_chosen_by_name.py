"""Models, optimizers and devices that are chosen by a name which only the run knows."""

from __future__ import annotations

import ast

import pytest

from accel_migrate.facts.values import Role
from codemod.marked import STEP, marked, script
from codemod.memory import facts_of

ZOO = """\
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def make_optimizer(self, lr):
        from torch.optim import Adam
        return Adam(self.parameters(), lr)


def large(classes=2):
    return nn.Sequential(nn.Linear(8, classes))


SIZES = {"small": 1, "large": 2}
"""
TRAIN = """\
import sys
import torch
import zoo
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8)
net = {chosen}
optimizer = {optimizer}
for (x,) in loader:
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()
"""
CHOSEN = {
    "by getattr": "getattr(zoo, sys.argv[1])()",
    "from the dict of the module": "zoo.__dict__[sys.argv[1]]()",
    "by a name with a default": "getattr(zoo, sys.argv[1], zoo.large)()",
}


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_model_chosen_by_name_is_one_of_the_module(chosen: str) -> None:
    facts = facts_of(TRAIN.format(chosen=chosen, optimizer="torch.optim.Adam(net.parameters())"), {"zoo": ZOO})
    sites = [binding for binding in facts.bindings if any(facts.role(v) is Role.MODEL for v in binding.values)]
    assert "net" in {getattr(binding.target, "id", "") for binding in sites}
    assert facts.trained_models()


def test_an_optimizer_that_such_a_model_makes_is_known() -> None:
    text = TRAIN.format(chosen=CHOSEN["by getattr"], optimizer="net.make_optimizer(0.1)")
    facts = facts_of(text, {"zoo": ZOO})
    (binding,) = (b for b in facts.bindings if getattr(b.target, "id", "") == "optimizer")
    assert {facts.role(v) for v in binding.values} >= {Role.OPTIMIZER}


def test_the_type_of_the_current_accelerator_is_a_device() -> None:
    code = "device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else 'cpu'\n«device»\n"
    assert Role.DEVICE in marked(script(code + STEP)).roles


@pytest.mark.parametrize("module", ["importlib.import_module(sys.argv[1])", "__import__(sys.argv[1])"])
def test_a_model_of_a_module_that_only_the_run_knows_is_known_by_its_parameters(module: str) -> None:
    chosen = f"({module}).make(2)"
    facts = facts_of("import importlib\n" + TRAIN.format(chosen=chosen, optimizer="torch.optim.Adam(net.parameters())"), {"zoo": ZOO})
    assert any(isinstance(site, ast.Call) for site in facts.trained_models())
