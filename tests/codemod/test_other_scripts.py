"""A script that takes a helper from another script: what that one does when it is the main program is not this program's."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options
from codemod.conftest import Files

FIRST = """
import torch
from torch import nn
from torch.utils.data import DataLoader


def loader_of(data):
    return DataLoader(data, batch_size=8)


def train(model, loader, optimizer):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    model = nn.Linear(4, 4).cuda()
    loader = loader_of(data)
    train(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))


if __name__ == "__main__":
    main()
"""


def test_another_script_s_main_is_no_home_and_stays(files: Files) -> None:
    second = FIRST.replace("def loader_of(data):\n    return DataLoader(data, batch_size=8)\n\n\n", "").replace("import DataLoader\n", "import DataLoader\nfrom first import loader_of\n")
    folder = files({"first.py": FIRST, "second.py": second})
    result = migrate(load_project(folder / "second.py"), Options())
    texts = {c.source.path.name: c.after for c in result.changes}
    assert "accelerator.backward(loss)" in texts["second.py"] and "Accelerator(" in texts["second.py"].partition("def main")[2]
    assert "accelerator" not in texts.get("first.py", "")
