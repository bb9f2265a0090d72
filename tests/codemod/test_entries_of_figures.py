"""Vectors of figures that a loop takes one by one, counts that shape what is gathered, and figures told inside of modules."""

from __future__ import annotations

from accel_migrate.edits import Severity
from accel_migrate.facts.operations import shape_of
from accel_migrate.facts.values import Local, Spread
from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated


def test_each_entry_of_a_mean_is_global() -> None:
    assert "for v in accelerator.global_mean(x.mean(0)):" in after(
        migrated(in_step("for v in x.mean(0):\n    print(v.item())"))
    )


def test_each_entry_with_gradients_is_made_global_by_itself() -> None:
    assert "accelerator.global_mean(v).item() for v in out.mean(0)" in after(
        migrated(in_step("print([v.item() for v in out.mean(0)])"))
    )


NEIGHBOURS = """\
bank = torch.randn(2, 40)
labels = torch.randint(3, (40,))
hits = total = 0
with torch.no_grad():
    for x, y in loader:
        out = model(x)
        weight, nearest = torch.mm(out, bank).topk(5)
        found = torch.gather(labels.expand(x.size(0), -1), dim=-1, index=nearest)
        votes = torch.zeros(x.size(0) * 5, 3).scatter(-1, found.view(-1, 1), 1.0)
        votes = (votes.view(x.size(0), -1, 3) * weight.unsqueeze(-1)).sum(1)
        hits += torch.sum((votes.argsort(-1)[:, :1] == y.unsqueeze(-1)).float()).item()
        total += x.size(0)
print(hits / total)
"""


def test_what_is_shaped_by_gathered_rows_is_not_added_up_again() -> None:
    text = after(migrated(script(STEP + NEIGHBOURS)))
    assert "global_sum" not in text
    assert "torch.zeros(accelerator.global_len(x) * 5, 3)" in text


def test_a_number_compared_to_nothing_stays() -> None:
    assert "assert x.size(0) != 0" in after(migrated(in_step("assert x.size(0) != 0")))


TELLING = """\
class Loss(nn.Module):
    def forward(self, out, y):
        loss = F.cross_entropy(out, y)
        print("inside", loss.item())
        return loss


criterion = Loss()
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_a_figure_told_inside_of_a_module_is_reported() -> None:
    found = migrated(script(TELLING)).findings
    assert [(f.rule, f.severity) for f in found] == [("local-figure", Severity.INFO)]


ADDED_UP = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.kl = 0

    def forward(self, x):
        z = self.layer(x)
        self.kl = 0
        for _ in range(2):
            self.kl += z.pow(2).sum(-1)
        return z


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    loss = ((net(x) - x).pow(2).sum(-1) + net.kl).mean()
    loss.backward()
    optimizer.step()
"""


def test_an_attribute_that_each_forward_pass_begins_holds_rows() -> None:
    text = after(migrated(script(ADDED_UP)))
    assert "gather" not in text and "accelerator.backward(loss)\n" in text


def test_a_row_that_is_drawn_is_not_gathered_row_by_row() -> None:
    result = migrated("import random\n" + in_step("i = random.randint(0, 3)\nprint(out[i].data.cpu().numpy())"))
    assert "local-figure" in [f.rule for f in result.findings]
    assert "gather" not in after(result)


def test_the_last_dimension_is_none_that_is_unknown() -> None:
    assert shape_of(Local(Spread.SHARD, axis=-1)) != "shape -1"
