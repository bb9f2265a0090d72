"""Figures that every row of a batch meets: prototypes of classes, weights from the balance of a batch, pooled graphs."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, {given}):
{body}


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
POOL = """\
        z = self.body(b.x)
        pooled = torch.zeros({size}, 4, device=z.device).index_add_(0, b.batch, z)
        return self.head(pooled)"""
EVALUATION = "model.eval()\nhits = 0\nwith torch.no_grad():\n    for b in loader:\n        hits += (model(b).argmax(1) == b.y).sum().item()\nprint(hits)\n"


def rules(text: str) -> set[str]:
    return {finding.rule for finding in migrated(script(text)).findings}


def test_prototypes_of_classes_in_a_forward_pass_are_reported() -> None:
    body = "        z = self.body(x)\n        sums = torch.zeros(2, 4).index_add_(0, y, z)\n        return -torch.cdist(z, sums / F.one_hot(y, 2).sum(0).unsqueeze(1))"
    result = migrated(script(MODEL.format(given="x, y", body=body) + STEP.replace("model(x)", "model(x, y)")))
    assert {finding.rule for finding in result.findings} == {"batch-coupling"}
    assert "global_sum" not in after(result)


def test_distances_to_means_of_the_rows_are_reported() -> None:
    body = "        z = self.body(x)\n        means = torch.stack([z[y == c].mean(0) for c in range(2)])\n        return -torch.cdist(z, means)"
    assert rules(MODEL.format(given="x, y", body=body) + STEP.replace("model(x)", "model(x, y)")) == {"batch-coupling"}


def test_sums_with_gradients_stay_attached_though_an_evaluation_has_them_without() -> None:
    text = MODEL.format(given="b", body=POOL.format(size="7")) + STEP.replace("x, y in", "b in").replace("(x)", "(b)").replace("(out, y)", "(out, b.y)") + EVALUATION
    result = migrated(script(text))
    assert "batch-coupling" in {finding.rule for finding in result.findings}
    assert "global_sum(torch.zeros" not in after(result)


def test_graphs_of_this_process_are_pooled_as_rows() -> None:
    step = STEP.replace("x, y in", "b in").replace("(x)", "(b)").replace("(out, y)", "(out, b.y)")
    text = MODEL.format(given="b", body=POOL.format(size="b.num_graphs")) + "total = 0.0\n" + step + "    total += b.num_graphs * loss.item()\n" + EVALUATION
    result = migrated(script(text))
    assert not result.findings
    assert "global_sum(torch.zeros" not in after(result)
    assert "total += accelerator.global_len(b.num_graphs) * accelerator.global_mean(loss).item()\n" in after(result)


def test_weights_from_the_balance_of_a_batch_are_those_of_the_whole_batch() -> None:
    loss = "w = torch.where(y > 0, y.sum() / y.numel(), 1.0)\n    loss = (F.cross_entropy(out, y, reduction='none') * w).mean()"
    result = migrated(script(STEP.replace("loss = F.cross_entropy(out, y)", loss)))
    assert not result.findings
    assert "torch.where(y > 0, accelerator.global_mean(y.sum() / y.numel()), 1.0)" in after(result)


def test_rows_filled_with_their_smallest_meet_that_of_all_rows() -> None:
    result = migrated(script(STEP.replace("out = model(x)", "out = model(x.masked_fill(x > 1, x.mean()))")))
    assert not result.findings
    assert "x.masked_fill(x > 1, accelerator.global_mean(x.mean()))" in after(result)


def test_rows_shifted_in_place_meet_the_mean_of_all_rows() -> None:
    result = migrated(script(STEP.replace("out = model(x)", "x.sub_(x.mean(0))\n    out = model(x)")))
    assert not result.findings
    assert "x.sub_(accelerator.global_mean(x.mean(0)))" in after(result)
