"""`import package.module` and then `package.module.Thing`; and optimizers of things that stay unknown."""

from __future__ import annotations

import textwrap
from pathlib import Path

from accel_migrate.migrate import migrate
from accel_migrate.project import Project
from accel_migrate.result import Options
from accel_migrate.source import Source
from codemod.marked import STEP, script
from codemod.memory import after, migrated

NETS = "from torch import nn\n\n\nclass Net(nn.Linear):\n    pass\n"


def test_a_model_of_a_module_inside_a_package_is_prepared() -> None:
    text = script("import package.nets\nnet = package.nets.Net(8, 2)\nadam = torch.optim.Adam(net.parameters())\n" + STEP.replace("model(", "net("))
    entry = Source(Path("train.py"), text, module="train")
    package = Source(Path("package/__init__.py"), "", module="package", is_package=True)
    nets = Source(Path("package/nets.py"), NETS, module="package.nets")
    result = migrate(Project(entry, {"train": entry, "package": package, "package.nets": nets}, Path()), Options())
    assert "prepare(model, net, " in after(result)


def test_an_optimizer_of_unknown_parameters_is_reported() -> None:
    result = migrated(script("import parts\nadam = torch.optim.Adam(parts.made()['head'].weights)\n" + STEP))
    assert [f.rule for f in result.findings] == ["unknown-parameters"]


def test_an_average_of_a_model_is_no_optimizer_and_keeps_its_module() -> None:
    averages = "average = torch.optim.swa_utils.AveragedModel(model)\nmodel = nn.DataParallel(model)\nsizes = len(model.module.weight)\n"
    result = migrated(script(averages + STEP + "torch.save(average.module.state_dict(), 'a.pt')\n"))
    assert not result.findings
    assert "accelerator.save(average.module.state_dict(), 'a.pt')" in after(result)
    assert "len(model.weight)" in after(result)


def test_the_inherited_forward_of_a_library_model_returns_rows() -> None:
    model = "class Centred(nn.Linear):\n    def forward(self, x):\n        out = super().forward(x)\n        return out - out.mean(dim=0)\n\n\nmodel = Centred(8, 2)\n"
    result = migrated(script(model + "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n" + STEP))
    assert [f.rule for f in result.findings] == ["batch-coupling"]


def test_an_optimizer_inside_another_one_is_not_prepared() -> None:
    outer = "class Outer(torch.optim.Optimizer):\n    def __init__(self, params):\n        super().__init__(params, {})\n        self.inner = torch.optim.SGD(self.param_groups, 0.1)\n\n\n"
    result = migrated(script(outer + "optimizer = Outer(model.parameters())\n" + STEP))
    assert not result.findings
    assert "prepare(model, optimizer, loader)" in after(result) and "self.inner = torch.optim.SGD(self.param_groups, 0.1)\n\n" in after(result)


PARTS = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.first(x))


if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randint(2, (64,))), batch_size=16)
    model = Net().to("cuda")
    optimizer = torch.optim.Adam([{"params": model.first.parameters()}, {"params": model.last.parameters(), "lr": 0.1}])
"""


def test_the_whole_of_a_model_whose_layers_are_trained_at_their_own_rates_is_prepared() -> None:
    result = migrated(PARTS + textwrap.indent(STEP, "    "))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after(result)
    assert "self.first = nn.Linear(8, 8)" in after(result)
