"""Figures that are added up row by row, and lists with one record for each row."""

from __future__ import annotations

import textwrap

from codemod.marked import STEP, script
from codemod.memory import after, migrated


def _in_step(code: str) -> str:
    return script("hits = seen = 0\nnames = []\n" + STEP + textwrap.indent(textwrap.dedent(code).strip("\n"), "    "))


def test_each_figure_that_a_loop_over_rows_adds_up_is_named() -> None:
    result = migrated(
        _in_step("""
            for o, t in zip(out, y):
                if o.argmax() == t:
                    hits += 1
                seen += 1
                names.append("seen")
        """)
        + "\nprint(hits / seen, names)\n"
    )
    assert [(f.rule, f.message.split("`")[1]) for f in result.findings] == [
        ("local-figure", "hits"),
        ("local-figure", "seen"),
        ("local-figure", "'seen'"),
    ]


def test_what_a_loop_over_rows_adds_up_for_its_batch_is_no_figure() -> None:
    result = migrated(_in_step("count = 0\nfor row in x:\n    count += 1"))
    assert result.findings == []


DETECTOR = """\
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x, targets=None):
        out = self.layer(x)
        if targets is not None:
            return {"loss": F.cross_entropy(out, targets)}
        scores, labels = out.max(1)
        return [{"score": s, "label": t} for s, t in zip(scores, labels)]


model = Detector()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    losses = model(x, y)
    losses["loss"].backward()
    optimizer.step()
    log(**losses)
results = {}
hits = 0
with torch.no_grad():
    for x, y in loader:
        outputs = model(x)
        outputs = [{k: v.cpu() for k, v in o.items()} for o in outputs]
        results.update({len(results): o for o in outputs})
        for o, t in zip(outputs, y):
            hits += int(o["label"] == t)
print(f"{hits} of {len(results)}, {sum(r['score'].item() for r in results.values()):.3f}")
"""


def test_a_list_with_a_record_for_each_row_is_gathered() -> None:
    result = migrated(script(DETECTOR))
    assert not [f for f in result.findings if f.rule == "local-figure"]
    assert "outputs, y = accelerator.gather_for_metrics((outputs, y))" in after(result)


ROW = """\
class Row:
    def __init__(self, values):
        self.values = values

    def padded(self, most):
        missing = most - self.values.shape[0]
        return F.pad(self.values, (0, missing)) if missing > 0 else self.values


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 2)

    def forward(self, x):
        rows = []
        for i in range(len(x)):
            rows.append(Row(x[i]).padded(12))
        return self.layer(torch.stack(rows))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_what_is_called_for_each_row_measures_that_row() -> None:
    result = migrated(script(ROW + STEP))
    assert result.status == "changed" and "global_len" not in after(result)
