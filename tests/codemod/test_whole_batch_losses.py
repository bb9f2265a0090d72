"""Where the rows of all processes are gathered for a loss: in helpers, in a model's own forward pass; and where not."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

COUPLED = """\
class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x):
        z = self.layer(x)
        return F.cross_entropy(z @ z.T, torch.arange(len(z)))


towers = Towers()
adam = torch.optim.Adam(towers.parameters())
for x, y in loader:
    towers(x).backward()
    adam.step()
"""


def test_a_model_that_computes_its_loss_gathers_in_its_forward() -> None:
    result = migrated(script(COUPLED))
    assert not result.findings
    assert "        z = self.layer(x)\n        z = gather_with_grad(z)\n" in after(result)


@pytest.mark.parametrize("use", ["towers(torch.ones(4, 8))\n", "loss = towers(dataset.tensors[0])\n"])
def test_not_where_its_forward_sees_what_every_process_has(use: str) -> None:
    result = migrated(script(COUPLED + use))
    assert [f.rule for f in result.findings] == ["batch-coupling"]
    assert "gather_with_grad" not in after(result)


def coupled(line: str) -> str:
    step = f"z = model(x)\n    {line}\n    loss = (z @ z.T).logsumexp(1).mean()\n    loss.backward()\n    optimizer.step()\n"
    return script(f"for x, y in loader:\n    {step}")


@pytest.mark.parametrize("line", ["z = z + torch.randn_like(z)", "z = F.dropout(z)"])
def test_not_where_random_numbers_go_into_the_loss(line: str) -> None:
    result = migrated(coupled(line))
    assert [f.rule for f in result.findings] == ["batch-coupling"]
    assert "gather_with_grad" not in after(result)


def test_after_the_last_of_several_forward_passes() -> None:
    result = migrated(coupled("z = model(z)"))
    assert not result.findings
    assert "    z = model(z)\n    z = accelerator.gather_with_grad(z)\n" in after(result)


def test_a_batch_drawn_once_that_trains_through_a_helper_stays_a_batch() -> None:
    helper = "def marked(rows):\n    copy = rows.clone()\n    copy[:, :2] = 0\n    return copy\n\n\n"
    step = "x, y = next(iter(loader))\nx = marked(x)\nfor step in range(3):\n    model(x).mean().backward()\n    optimizer.step()\n"
    result = migrated(script(helper + step))
    assert "accelerator.backward(model(x).mean())" in after(result)
    assert "gather" not in after(result)


def test_a_model_that_trains_itself_shows_the_global_loss() -> None:
    model = "class Layer(nn.Linear):\n    def fit(self, x):\n        loss = self.forward(x).pow(2).mean()\n        loss.backward()\n        print(loss.item())\n\n\n"
    use = "layer = Layer(8, 4)\nsgd = torch.optim.SGD(layer.parameters(), 0.1)\nfor x, y in loader:\n    layer.fit(x)\n    sgd.step()\n"
    result = migrated(script(model + use))
    assert not result.findings
    assert "global_mean(loss).item()" in after(result)


def test_numbers_of_local_rows_are_not_gathered() -> None:
    step = "order = torch.randperm(x.size(0))\n    z = model(x)\n    loss = F.cross_entropy(z @ z.T, y) + F.cross_entropy(z, y[order])\n    loss.backward()\n    optimizer.step()\n"
    result = migrated(script(f"for x, y in loader:\n    {step}"))
    assert {f.rule for f in result.findings} == {"batch-coupling"}
    assert "accelerator.gather_for_metrics(y)[order]" in after(result)
    assert "gather_with_grad" not in after(result)


def test_outputs_returned_beside_the_loss_stay_those_of_the_process() -> None:
    beside = COUPLED.replace("return F.cross_entropy(z @ z.T, torch.arange(len(z)))", "return F.cross_entropy(z @ z.T, torch.arange(len(z))), z")
    result = migrated(script(beside.replace("towers(x).backward()", "loss, z = towers(x)\n    loss.backward()")))
    assert "batch-coupling" in {f.rule for f in result.findings}
    assert "gather_with_grad" not in after(result)


def test_a_distribution_is_not_gathered() -> None:
    step = "out = model(x)\n    q = torch.distributions.Normal(out, out.exp())\n    z = model(q.rsample())\n    loss = (z @ z.T).mean() + q.entropy().mean()\n    loss.backward()\n    optimizer.step()\n"
    assert "gather_with_grad((z, q))" not in after(migrated(script(f"for x, y in loader:\n    {step}")))
