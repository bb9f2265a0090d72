"""The first rows of a batch are chosen once the rows of all processes are there."""

from __future__ import annotations

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program


def migrated(lines: str) -> tuple[str, list[str]]:
    result = migrate(program(script("import numpy as np\n" + STEP + lines), {}), Options())
    return after(result), [finding.rule for finding in result.findings]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("y.data[:5].cpu().numpy()", "accelerator.gather_for_metrics(y.data)[:5].cpu().numpy()"),
        ("y[:5].data.numpy()", "accelerator.gather_for_metrics(y)[:5].data.numpy()"),
        ("y[2:6, :1].cpu().tolist()", "accelerator.gather_for_metrics(y)[2:6, :1].cpu().tolist()"),
        ("y.detach()[:4].mean().item()", "accelerator.gather_for_metrics(y.detach())[:4].mean().item()"),
    ],
)
def test_rows_are_gathered_before_they_are_sliced(shown: str, expected: str) -> None:
    text, findings = migrated(f"    print({shown})\n")
    assert expected in text
    assert findings == []


def test_a_mean_over_rows_of_two_slices_is_reported() -> None:
    _text, findings = migrated("    print((y[:4] - x[2:6].detach()).mean().item())\n")
    assert findings == ["local-figure"]


def test_rows_that_were_sliced_before_are_reported() -> None:
    text, findings = migrated("    first = y[:4]\n    print(first.tolist())\n")
    assert "local-figure" in findings
    assert "gather" not in text


def test_the_mean_of_all_rows_stays_one_figure() -> None:
    text, findings = migrated("    print(y[:].mean().item())\n")
    assert "accelerator.global_mean(y[:].mean()).item()" in text
    assert findings == []


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("y[j]", "accelerator.gather_for_metrics(y)[j]"),
        ("x[j].data.sum()", "accelerator.gather_for_metrics(x)[j].data.sum()"),
        ("out[j, 0].item()", "accelerator.gather_for_metrics(out)[j, 0].item()"),
    ],
)
def test_rows_that_a_counter_picks_are_those_of_the_batch(shown: str, expected: str) -> None:
    text, findings = migrated(f"    for j in range(4):\n        print({shown})\n")
    assert expected in text
    assert findings == []


def test_a_figure_of_the_first_rows_that_has_gradients_is_reported() -> None:
    text, findings = migrated("    print((out[:4] ** 2).sum().item())\n")
    assert findings == ["local-figure"]
    assert "global_sum" not in text


KEPT = """\
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        self.outputs = {}
        for scale in range(2):
            self.outputs[("map", scale)] = self.layer(x + scale)
        return self.outputs


decoder = Decoder()
optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
for x, _ in loader:
    outputs = decoder(x)
    loss = sum(outputs[("map", scale)].pow(2).mean() for scale in range(2))
    loss.backward()
    optimizer.step()
    for j in range(4):
        print(outputs[("map", 0)][j].data.sum())
"""


def test_what_a_model_keeps_of_its_pass_stays_in_the_graph() -> None:
    text = after(migrate(program(script(KEPT), {}), Options()))
    assert 'self.outputs[("map", scale)] = self.layer(x + scale)' in text
    assert 'accelerator.gather_for_metrics(outputs[("map", 0)])[j].data.sum()' in text
