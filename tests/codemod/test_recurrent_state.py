"""The state that a recurrent layer starts from, made for a whole batch: each process keeps the part of its rows."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

START = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.{layer}(4, 8, batch_first=True)
        self.head = nn.Linear(8, 1)

    def forward(self, x, hidden):
        out, hidden = self.rnn(x, hidden)
        return self.head(out[:, -1]).squeeze(1), hidden

    def start(self, rows):
        zeros = torch.zeros(1, rows, 8)
        return {made}


size = 50
loader = DataLoader(data, batch_size=size, drop_last=True)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
hidden = net.start({rows})
for x, y in loader:
    hidden = {kept}
    out, hidden = net(x, hidden)
    loss = nn.functional.mse_loss(out, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
sample, _ = net(torch.zeros(1, 3, 4), net.start(1))
"""
KEPT = {
    "one tensor": ("GRU", "zeros", "hidden.detach()"),
    "a pair": ("LSTM", "(zeros, zeros)", "tuple([each.data for each in hidden])"),
    "a pair taken apart": ("LSTM", "(zeros, zeros)", "(hidden[0].detach(), hidden[1].detach())"),
}


@pytest.mark.parametrize(("layer", "made", "kept"), KEPT.values(), ids=KEPT)
def test_the_state_for_a_whole_batch_is_cut_once(layer: str, made: str, kept: str) -> None:
    result = migrated(START.format(layer=layer, made=made, kept=kept, rows="size"))
    text = after(result)
    assert "hidden = accelerator.shard_batch(net.start(size), dim=1)" in text and text.count("shard_batch") == 1
    assert f"    hidden = {kept}\n" in text and not result.findings


def test_a_state_made_for_the_rows_at_hand_stays() -> None:
    text = START.format(layer="GRU", made="zeros", kept="net.start(x.size(0))", rows="1")
    assert "shard_batch" not in after(migrated(text))


def test_a_learned_state_is_part_of_the_model() -> None:
    text = START.format(layer="GRU", made="zeros", kept="net.start(x.size(0))", rows="1").replace("net(x, hidden)", "net(x, net.first.expand(1, 50, 8))")
    assert "shard_batch" not in after(migrated(text))
