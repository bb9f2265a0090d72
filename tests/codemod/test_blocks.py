"""Rows that are several batches one after another: `torch.cat([first, second])` through one forward pass."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

VIEWS = """\
for x, y in loader:
    n = len(x)
    z = model(torch.cat([x, x + 1]))
    {loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "loss", ["loss = F.cross_entropy(z @ z.T, torch.arange(n).repeat(2))", "a, b = torch.split(z, [n, n])\n    loss = (a @ b.T).logsumexp(1).mean()"]
)
def test_a_loss_of_two_views_is_of_the_whole_batch_in_its_order(loss: str) -> None:
    result = migrated(script(VIEWS.format(loss=loss)))
    assert not result.findings
    assert "    z = accelerator.gather_with_grad(z, in_blocks=True)\n    n = accelerator.global_len(n)\n" in after(result)


@pytest.mark.parametrize("loss", ["a, b = z.chunk(2)\n    loss = F.mse_loss(a, b)", "loss = F.mse_loss(z[:n], z[n:])"])
def test_blocks_of_local_rows_are_cut_as_they_were_joined(loss: str) -> None:
    result = migrated(script(VIEWS.format(loss=loss)))
    assert not result.findings
    assert "gather" not in after(result)


def test_batches_of_several_loaders_are_not_put_in_order() -> None:
    step = VIEWS.replace("[x, x + 1]", "[x, u]").replace("for x, y in loader:", "for (x, y), (u, _) in zip(loader, other):")
    text = "other = DataLoader(dataset, batch_size=48)\n" + step.format(loss="loss = (z @ z.T).logsumexp(1).mean()")
    result = migrated(script(text))
    assert "batch-coupling" in {f.rule for f in result.findings}
    assert "gather_with_grad" not in after(result)


def test_what_is_shaped_by_the_number_of_rows_is_so_for_the_gathered_rows() -> None:
    text = "model.eval()\nwith torch.no_grad():\n    for x, y in loader:\n        n = x.size(0)\n        out = model(x)\n"
    text += "        print((out.argmax(1).view(n, -1) == y.view(n, -1)).sum())\n"
    result = after(migrated(script("for x, y in loader:\n    model(x).mean().backward()\n    optimizer.step()\n" + text)))
    assert "        out, y = accelerator.gather_for_metrics((out, y))\n        n = accelerator.global_len(n)\n" in result
