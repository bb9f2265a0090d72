"""Migrated notebooks, run cell by cell: the same losses on one process and on two, and the same model afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.migrated import DONE, accel_migrate
from e2e.places import PYTHON_PATH

RUNNER = """\
import json, sys
space = {"__name__": "__main__"}
import __main__
vars(__main__).update(space)
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        lines = [line for line in "".join(cell["source"]).split("\\n") if not line.startswith(("%", "!"))]
        exec(compile("\\n".join(lines), "cell", "exec"), vars(__main__))
"""
CELLS = [
    "%matplotlib inline\nimport torch\nimport torch.nn.functional as F\nfrom torch.utils.data import DataLoader, TensorDataset",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\ntorch.manual_seed(0)\n'
    "data = TensorDataset(torch.randn(249, 8), torch.randint(2, (249,)))",
    """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)


def train(epochs, lr=0.1):
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    history = []
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(x)
        history.append(total / len(data))
        print(f"epoch {epoch}: loss {total / len(data):.6f}")
    return model, history""",
    "model, history = train(3, lr=0.05)",
    'print("history", *history)\nprint("norm", sum(p.norm().item() for p in model.parameters()))',
]


def write(path: Path) -> None:
    cells = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "outputs": []} for cell in CELLS]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n")


def run(notebook: Path) -> list[str]:
    """What the cells print."""
    env = {**os.environ, "PYTHONPATH": PYTHON_PATH, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "yes", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", RUNNER, str(notebook)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def numbers(lines: list[str]) -> list[float]:
    return [float(number) for line in lines for number in re.findall(r"-?\d+\.\d+", line)]


def test_a_launched_notebook_trains_the_same_on_one_process_and_on_two(tmp_path: Path) -> None:
    notebook = tmp_path / "nb.ipynb"
    write(notebook)
    original = run(notebook)
    assert accel_migrate(tmp_path, "nb.ipynb", "--write").returncode == DONE
    text = notebook.read_text()
    assert "model, history = notebook_launcher(train, (3, 0.05), num_processes=2)" in text
    two = run(notebook)
    assert [re.sub(r"\d+\.\d+", "", line) for line in two] == [re.sub(r"\d+\.\d+", "", line) for line in original]
    assert numbers(two) == pytest.approx(numbers(original), rel=1e-4)
    notebook.write_text(text.replace("num_processes=2", "num_processes=1"))
    assert run(notebook) == original


def test_an_exported_notebook_is_a_script_that_trains_the_same(tmp_path: Path) -> None:
    notebook = tmp_path / "nb.ipynb"
    write(notebook)
    assert accel_migrate(tmp_path, "nb.ipynb", "--output", "train.py").returncode == DONE
    env = {**os.environ, "PYTHONPATH": PYTHON_PATH, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == run(notebook), done.stderr
