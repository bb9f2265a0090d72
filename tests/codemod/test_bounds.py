"""Numbers that size tensors and bound slices, and rows that go on in a recurrent state."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

BOUNDS = {
    "a slice": ("x = x[:, : y.max()]", "x[:, : accelerator.gather_for_metrics(y).max()]"),
    "a slice, by name": ("n = y.max()\nx = x[:, :n]", "n = accelerator.gather_for_metrics(y).max()"),
    "of a mask": ("x = x[:, : (x != 0).sum(1).max()]", "accelerator.gather_for_metrics((x != 0).sum(1)).max()"),
    "the positions of a mask": ("mask = torch.arange(y.max())[None] < y[:, None]", "torch.arange(accelerator.gather_for_metrics(y).max())"),
}
RECURRENT = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        out, (h, c) = self.rnn(x.unsqueeze(2))
        return self.head({state})


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
CARRIED = """\
gru = nn.GRU(1, 4, batch_first=True)
optimizer = torch.optim.SGD(gru.parameters(), lr=0.1)
h = None
for x, y in loader:
    if h is not None:
        h = h.detach()
    out, h = gru(x.unsqueeze(2), h)
    loss = out.mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("code", "expected"), BOUNDS.values(), ids=BOUNDS)
def test_bounds_are_those_of_the_whole_batch(code: str, expected: str) -> None:
    result = migrated(in_step(code))
    assert expected in after(result) and not result.findings


def test_padded_outputs_are_as_wide_as_the_process_needs() -> None:
    code = "out, n = nn.utils.rnn.pad_packed_sequence(out)\nmask = torch.arange(y.max())[None] < y[:, None]"
    assert "torch.arange(y.max())" in after(migrated(in_step(code)))


@pytest.mark.parametrize("code", ["mask = y == 1\nz = torch.zeros(int(mask.sum()), 8)", "n = (y == 1).sum().item()\nz = torch.zeros(n, 8)"])
def test_the_size_of_a_tensor_for_chosen_rows_is_local(code: str) -> None:
    assert "global_sum" not in after(migrated(in_step(code)))


def test_a_state_goes_on_with_the_rows_of_its_process() -> None:
    text = after(migrated(script(CARRIED + "print(h.abs().mean().item())")))
    assert "h = h.detach()" in text and "accelerator.global_mean(h.abs().mean()).item()" in text


def test_rows_behind_the_layers_of_a_state_are_not_gathered_along_the_layers() -> None:
    result = migrated(script(CARRIED + "    print(h.norm().item())"))
    assert "gather_for_metrics(h)" not in after(result) and {f.rule for f in result.findings} == {"local-figure"}


@pytest.mark.parametrize("state", ["h[-1]", "h[-1, :]", "h.squeeze(0)", "h.mean(0)", "out[:, -1]", "h.transpose(0, 1).flatten(1)"])
def test_what_is_made_of_one_layer_has_its_rows_first(state: str) -> None:
    step = STEP.replace("model(x)", "net(x)") + "    print(out.argmax(1).tolist())"
    result = migrated(script(RECURRENT.format(state=state) + step))
    assert "accelerator.gather_for_metrics(out.argmax(1)).tolist()" in after(result) and not result.findings
