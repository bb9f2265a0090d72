"""Rows that come back to their process, rows that become data, and losses of several batches in one backward pass."""

from __future__ import annotations

from codemod.marked import STEP, script
from codemod.memory import after, migrated

TEACHER = """\
teacher = nn.Linear(8, 2)


def hints(loader):
    kept = []
    with torch.no_grad():
        for x, _ in loader:
            kept.append(teacher(x))
    return kept


fixed = DataLoader(dataset, batch_size=32)
found = hints(fixed)
for i, (x, y) in enumerate(fixed):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y) + F.mse_loss(model(x), found[i])
    loss.backward()
    optimizer.step()
"""


def test_outputs_kept_for_the_same_batches_stay_those_of_the_process() -> None:
    result = migrated(script(TEACHER))
    assert result.findings == []
    assert "gather" not in after(result)


SELECTING = """\
with torch.no_grad():
    scores = torch.cat([model(x).softmax(1) for x, _ in DataLoader(dataset, batch_size=32)])
sure = (scores.max(1).values > 0.6).nonzero().squeeze(1)
more = DataLoader(TensorDataset(dataset.tensors[0][sure], scores[sure].argmax(1)), batch_size=32)
for x, y in more:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_gathered_scores_may_choose_and_label_new_data() -> None:
    result = migrated(script(SELECTING))
    assert result.findings == []
    assert "gather_for_metrics" in after(result)


SEVERAL = """\
held = []
for step, (x, y) in enumerate(loader):
    held.append(F.cross_entropy(model(x), y))
    if len(held) == 3 or step == len(loader) - 1:
        loss = sum(held) / len(held)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        held = []
"""


def test_losses_held_over_some_batches_are_computed_from_whole_ones() -> None:
    result = migrated(script(SEVERAL))
    assert result.findings == []
    assert "output, y = accelerator.gather_with_grad((model(x), y))" in after(result)


def test_terms_of_one_batch_are_no_sum_over_several() -> None:
    terms = STEP.replace("    loss = F.cross_entropy(out, y)\n", "    terms = []\n    terms.append(F.cross_entropy(out, y))\n    terms.append(F.cross_entropy(-out, y))\n    loss = sum(terms)\n")
    result = migrated(script(terms))
    assert result.findings == []
    assert "gather_with_grad" not in after(result)
