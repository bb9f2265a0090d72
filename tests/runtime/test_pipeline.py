"""The pipeline of the documentation: losses and weights of one process."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import torch
import torch.distributed.pipelining  # once here instead of in every child
from torch import nn
from torch.utils.data import DataLoader

from .ranks import run_ranks
from .training import assert_close, data, seed

PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"


def layers():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))


def by_hand():
    seed()
    model = layers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for x, y in DataLoader(data(35), batch_size=8, shuffle=True, drop_last=True):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, model.state_dict()


def test_the_lines_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = PAGE.read_text().partition("## Pipelines")[2].partition("```python\n")[2].partition("```")[0]
    code = compile(lines, "docs/strategies.md", "exec")

    def program():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {"make_layers": layers, "dataset": data(35)})
        return [float(line) for line in printed.getvalue().split()]

    losses, weights = by_hand()
    first, second = run_ranks(program, 2)
    assert_close(first, losses, 1e-5)
    assert second == []
    saved = torch.load(tmp_path / "model.pt")
    assert_close({name: saved[name] for name in weights}, dict(weights), 1e-5)
