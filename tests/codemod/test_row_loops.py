"""Loops over one process's rows: nothing that takes all processes is put into them, and draws in them are reported."""

from __future__ import annotations

import pytest

from codemod.marked import in_step, script
from codemod.memory import after, migrated

REPORTED = {
    "a draw for each index": "import random\nfor i in range(len(x)):\n    if random.random() < 0.5:\n        x[i] = x[i].flip(-1)",
    "a draw in a helper": "import random\ndef shift(b):\n    for i in range(b.size(0)):\n        b[i] = b[i] + random.randint(-1, 1)\n    return b\nz = shift(x)",
    "a draw of a helper called for each row": "import random\ndef noisy(r):\n    return r + random.random()\nz = torch.stack([noisy(r) for r in x])",
    "a generator of its own": "import numpy as np\nrng = np.random.default_rng(0)\nfor i, row in enumerate(x):\n    x[i] += rng.normal()",
    "a draw of PyTorch": "for i in range(x.shape[0]):\n    x[i] += torch.randn(8)",
    "losses of rows": "each = [F.cross_entropy(model(x[i : i + 1]), y[i : i + 1]) for i in range(len(x))]\nprint(max(l.item() for l in each))",
    "a list filled row by row": "each = []\nfor i in range(len(x)):\n    each.append(F.mse_loss(out[i], x[i, :2]))\nfor l in each:\n    print(l.item())",
    "a figure of the batch": "for row in out:\n    print(loss.item())",
    "as many draws as a mask picks": "mask = y == 1\ny[mask] = torch.randint(0, 2, (int(mask.sum()),))",
    "as many, by name": "mask = y == 1\nn = mask.sum().item()\nx[mask] += torch.randn(n, 8)",
}
SILENT = {
    "parts of a batch": ("print([t.mean().item() for t in (out, y.float())])", "accelerator.global_mean(t.mean()).item() for t in"),
    "a draw for each batch": ("import random\nif random.random() < 0.5:\n    print(loss.item())", "accelerator.global_mean(loss)"),
    "a number that is shown": ("n = (y == 1).sum().item()\nprint(n)", "accelerator.global_sum((y == 1).sum()).item()"),
    "a loop over something else": ("import random\nfor i in range(3):\n    x = x * random.random()\nprint(loss.item())", "accelerator.global_mean(loss)"),
}


@pytest.mark.parametrize("code", REPORTED.values(), ids=REPORTED)
def test_is_reported(code: str) -> None:
    result = migrated(in_step(code))
    assert "row-loops" in {finding.rule for finding in result.findings}
    shown = after(result).partition("optimizer.step()")[2]
    assert not {"global_mean", "global_sum", "gather"} & set(shown.replace("(", ".").split("."))


@pytest.mark.parametrize(("code", "expected"), SILENT.values(), ids=SILENT)
def test_becomes_global_without_a_finding(code: str, expected: str) -> None:
    result = migrated(in_step(code))
    assert expected in after(result) and not result.findings


def test_sums_that_are_computed_from_themselves_are_followed_once() -> None:
    pairs = "class Pairs(nn.Module):\n    def forward(self, z, y):\n        n, kept = z.size(0), []\n        for i in range(n):\n            kept.append((1 - torch.masked_select((z @ z.t())[i], y[i] == y)).sum())\n        return sum(kept) / n\n\n\npairs = Pairs()\n"
    step = "for x, y in loader:\n    z = model(x)\n    loss = pairs(z, y)\n    if len(x) > 2:\n        loss = loss + 0.5 * pairs(z, y)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    print(loss.item())\n"
    result = migrated(script(pairs + step))
    assert result.status == "changed"
    assert "accelerator.backward(loss)" in after(result)
