"""What a result reads is bound in it: the accelerator is imported wherever a rule has put it."""

from __future__ import annotations

import pytest

from accel_migrate.gate import unbound
from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, migrated, program

DEVICE = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
LAYERS = f"""\
import torch
from tools import count
{DEVICE}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)
    def forward(self, x):
        return self.layer(x) + torch.zeros(count(x), 2).to(device)
"""
TOOLS = f"import torch\n{DEVICE}def count(x):\n    return len(x)\ndef moved(x):\n    return x.to(device)\n"
TRAIN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from tools import device, moved
from layers import Net
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 2)), batch_size=16):
    optimizer.zero_grad()
    (model(moved(x)) - moved(y)).pow(2).mean().backward()
    optimizer.step()
"""


def test_each_module_that_chose_a_device_imports_the_accelerator() -> None:
    result = migrate(program(TRAIN, {"tools": TOOLS, "layers": LAYERS}), Options())
    assert result.status == "changed"
    texts = {change.source.module: change.after for change in result.changes}
    assert "accelerator.device" in texts["layers"]
    assert all(not unbound(text) for text in texts.values())


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = y\n", {"y"}),
        ("def f():\n    return y\n", {"y"}),
        ("def f():\n    global y\n    y = 1\nprint(y)\n", set()),
        ("def f(y):\n    return [y for _ in range(y)]\n", set()),
        ("def top(y):\n    x = y\n    return x\n", set()),
        ("from m import *\nprint(y)\n", set()),
        ("import y.z\nclass A:\n    b = y\nprint(A, __name__, __file__)\n", set()),
        ("for y in range(3):\n    pass\nwith open('f') as g:\n    print(y, g)\n", set()),
    ],
)
def test_names_that_nothing_binds(text: str, names: set[str]) -> None:
    assert unbound(text) == names


SKIPPED = """\
path = ""
device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
if path != "":
    model.load_state_dict(torch.load(path, map_location=device))
model = model.to(device)
"""


def test_a_device_that_only_a_skipped_branch_reads_is_kept() -> None:
    text = after(migrated(script(SKIPPED + STEP)))
    assert "map_location=accelerator.device" in text
    assert not unbound(text)
