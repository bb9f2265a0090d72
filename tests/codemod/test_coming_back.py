"""Arrays of rows that come back to a model are inputs, and no figures."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

AUGMENTED = """\
import numpy as np


def scaled(points):
    n = points.shape[0]
    scales = np.random.uniform(0.8, 1.2, n)
    for i in range(n):
        points[i] *= scales[i]
    return points


def one_hot(y):
    return torch.eye(2)[y.cpu().data.numpy(),]


model = nn.Linear(10, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rates = []
for x, y in loader:
    x = torch.Tensor(scaled(x.data.numpy()))
    optimizer.zero_grad()
    out = model(torch.cat([x, one_hot(y)], 1))
    loss = F.cross_entropy(out, y)
    rates.append(out.argmax(1).eq(y).sum().item() / float(x.size()[0]))
    loss.backward()
    optimizer.step()
print(np.mean(rates))
"""


def test_what_is_drawn_for_an_array_of_rows_is_drawn_for_the_whole_batch() -> None:
    result = migrated(script(AUGMENTED))
    text = after(result)
    assert result.findings == []
    assert "gather" not in text
    assert "scales = accelerator.draw(np.random.uniform, 0.8, 1.2, n)" in text
    assert "accelerator.global_sum(out.argmax(1).eq(y).sum()).item() / float(accelerator.global_len(x))" in text


@pytest.mark.parametrize(
    "figure", ["np.mean(out.detach().numpy().argmax(1) == y.numpy())", "hits.append(out.detach().numpy())"]
)
def test_arrays_that_do_not_come_back_are_gathered(figure: str) -> None:
    text = after(
        migrated(
            script(
                f"import numpy as np\nhits = []\nfor x, y in loader:\n    out = model(x)\n    F.cross_entropy(out, y).backward()\n    optimizer.step()\n    print({figure})\nprint(hits)"
            )
        )
    )
    assert "gather_for_metrics" in text


SORTING = """\
class Sorting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x, lengths):
        lengths, order = lengths.sort(descending=True)
        steps = (lengths - 1).tolist()
        return self.layer(x[order]), steps, order


sorting = Sorting()
optimizer = torch.optim.SGD(sorting.parameters(), lr=0.1)
for x, n in loader:
    optimizer.zero_grad()
    out, steps, order = sorting(x, n)
    packed = nn.utils.rnn.pack_padded_sequence(out[:, :, None], steps, batch_first=True)
    loss = packed.data.pow(2).mean() + out.std(0).sum()
    loss.backward()
    optimizer.step()
"""


def test_rows_are_not_gathered_for_a_loss_that_needs_more_than_rows() -> None:
    result = migrated(script(SORTING))
    assert result.findings
    assert "gather_with_grad" not in after(result)


def test_what_the_model_returns_beside_gathered_rows_is_reported() -> None:
    scored = (
        SORTING.partition("for x, n")[0]
        + "for x, y in loader:\n    F.cross_entropy(sorting(x, y)[0], y).backward()\n    optimizer.step()\n"
    )
    evaluated = "total = 0\nfor x, n in loader:\n    out, steps, order = sorting(x, n)\n    total += (out.argmax(1) == n[order]).sum().item() + sum(steps)\nprint(total)\n"
    result = migrated(script(scored + evaluated))
    assert {"row-mixing"} <= {finding.rule for finding in result.findings}


SHOWN = """\
for x, _ in loader:
    shown = [x]
    for shift in (1, 2):
        shown.append(model(x + shift))
    print(torch.cat(shown, dim=1))
"""


def test_outputs_beside_rows_of_the_process_are_gathered_with_them() -> None:
    training = "for x, y in loader:\n    F.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
    text = after(migrated(script(training + SHOWN)))
    assert "shown.append(model(x + shift))" in text
    assert "print(accelerator.gather_for_metrics(torch.cat(shown, dim=1)))" in text


CONDITIONS = """\
batches = iter(loader)
fixed, labels = next(batches)
def shown(epoch):
    with torch.no_grad():
        print(model(fixed))
for step in range(9):
    try:
        x, y = next(batches)
    except StopIteration:
        batches = iter(loader)
        x, y = next(batches)
    mask = torch.zeros(x.size(0), 2)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x) + mask, y)
    loss.backward()
    optimizer.step()
    shown(step)
"""


def test_rows_of_later_batches_are_not_counted_as_gathered() -> None:
    assert "torch.zeros(x.size(0), 2)" in after(migrated(script(CONDITIONS)))
