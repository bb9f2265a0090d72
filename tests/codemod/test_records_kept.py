"""Figures in records that outlive the batch, wherever they are put into the record; metrics handed on by name."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated


def kept(*lines: str) -> str:
    """The migrated program in which `lines` end each step."""
    result = migrated(
        "history = []\n".join(["", script(STEP + "".join(f"    {line}\n" for line in lines) + "print(history)\n")])
    )
    assert result.findings == []
    return after(result)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["record = {}", "record['rows'] = len(x)", "history.append(record)"],
            "record['rows'] = accelerator.global_len(x)",
        ),
        (
            ["record = {}", "record.update(seen=y.sum())", "history.append(record)"],
            "record.update(seen=accelerator.global_sum(y.sum()))",
        ),
        (
            ["record = {}", "record.update({'rows': len(x)})", "history.append(record)"],
            "record.update({'rows': accelerator.global_len(x)})",
        ),
        (["history.append({'train': {'rows': len(x)}})"], "{'train': {'rows': accelerator.global_len(x)}}"),
        (["history.append({'classes': len(torch.unique(y))})"], "len(torch.unique(accelerator.gather_for_metrics(y)))"),
        (["history.append({'loss': loss})"], "{'loss': accelerator.global_mean(loss)}"),
    ],
)
def test_figures_are_global_where_they_are_put_into_the_record(lines: list[str], expected: str) -> None:
    assert expected in kept(*lines)


def test_a_loss_that_trains_later_stays_attached() -> None:
    lines = [
        "history.append({'loss': loss})",
        "total = 0",
        "for record in history:",
        "    total = total + record['loss']",
        "if len(history) == 4:",
        "    total.backward()",
    ]
    step = STEP.replace("    loss.backward()\n", "")
    result = migrated("history = []\n" + script(step + "".join(f"    {line}\n" for line in lines)))
    assert "history.append({'loss': loss})" in after(result)


GROUP = """
class Hits:
    def __init__(self, key):
        self.key = key
        self.hits, self.rows = 0, 0

    def update(self, state):
        self.hits += (state["out"].argmax(1) == state[self.key]).sum().item()
        self.rows += len(state[self.key])


class Group:
    def __init__(self, **metrics):
        self.metrics = metrics

    def update(self, state):
        for metric in self.metrics.values():
            metric.update(state)


group = Group(first=Hits("y"))
"""


def test_metrics_that_are_handed_on_by_name_count_the_global_batch() -> None:
    text = after(
        migrated(
            script(
                GROUP
                + STEP
                + "    group.update({'out': out, 'y': y, 'loss': loss.item()})\nprint(group.metrics['first'].hits)\n"
            )
        )
    )
    assert 'self.hits += accelerator.global_sum((state["out"].argmax(1) == state[self.key]).sum()).item()' in text
    assert "self.rows += accelerator.global_len(state[self.key])" in text


@pytest.mark.parametrize(
    "line",
    [
        'json.dump({"rows": len(x)}, file)',
        "file.write(json.dumps([len(x)]))",
        "csv.writer(file).writerow([1, len(x)])",
        'wandb.log({"rows": len(x)})',
        'logging.info("%d rows", len(x))',
        "report = dict(rows=len(x)); print(report)",
    ],
)
def test_what_is_written_or_sent_counts_the_global_batch(line: str) -> None:
    start = 'import csv\nimport json\nimport logging\n\nimport wandb\n\nfile = open("log")\n'
    assert "accelerator.global_len(x)" in after(migrated(start + script(STEP + f"    {line}\n")))


GUARDED = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    with open("log", "a") as file:
        file.write(f"{len(x)}")
"""


@pytest.mark.parametrize(("collate", "inside"), [("", True), (", collate_fn=join", False)])
def test_numbers_that_processes_exchange_are_asked_for_outside_of_guards(collate: str, inside: bool) -> None:
    text = script("def join(samples):\n    return [torch.cat(parts) for parts in zip(*samples)]\n\n\n" + GUARDED)
    text = after(migrated(text.replace("shuffle=True)", f"shuffle=True{collate})")))
    before, _, guarded = text.partition("if accelerator.is_main_process:")
    assert ("accelerator.global_len(x)" in guarded) is inside
    assert ("accelerator.global_len(x)" in before) is not inside
