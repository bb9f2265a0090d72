"""Rows of which a collate function joins any number for each sample: means over them have their number as denominator."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class Graphs:
    def __init__(self, nodes, labels):
        self.nodes, self.labels = nodes, labels


def join(samples):
    nodes = torch.cat([nodes for nodes, _ in samples])
    RETURN


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, nodes):
        return self.layer(nodes)


loader = DataLoader([(torch.randn(i % 5 + 1, 4), torch.randint(3, (i % 5 + 1,))) for i in range(40)], batch_size=8, collate_fn=join)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for TARGET in loader:
    optimizer.zero_grad()
    LOSS
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
JOINED = "torch.cat([labels for _, labels in samples])"
CASES = [
    (f"return nodes, {JOINED}", "x, y", "loss = F.cross_entropy(model(x), y)", "y"),
    (
        f'labels = {JOINED}\n    return {{"x": nodes, "y": labels}}',
        "batch",
        'loss = F.cross_entropy(model(batch["x"]), batch["y"])',
        'batch["y"]',
    ),
    (
        f"return Graphs(nodes, {JOINED})",
        "batch",
        "loss = nn.CrossEntropyLoss()(model(batch.nodes), batch.labels)",
        "batch.labels",
    ),
]


def program(case: tuple[str, str, str, str]) -> str:
    text = PROGRAM
    for word, part in zip(("RETURN", "TARGET", "LOSS"), case, strict=False):
        text = text.replace(word, part)
    return text


@pytest.mark.parametrize("case", CASES)
def test_a_mean_over_joined_rows_is_weighed_by_their_number(case: tuple[str, str, str, str]) -> None:
    result = migrated(program(case))
    assert result.findings == []
    assert f"accelerator.backward(loss, weight=len({case[3]}))" in after(result)
    assert f"accelerator.global_mean(loss, weight=len({case[3]})).item()" in after(result)


@pytest.mark.parametrize(
    ("returned", "target"),
    [
        ("return nodes, torch.tensor([labels[0] for _, labels in samples])", "y"),
        ("return nodes, torch.cat([labels[:1].unsqueeze(0) for _, labels in samples])", "y[:, 0]"),
    ],
)
def test_a_row_for_each_sample_needs_no_weight(returned: str, target: str) -> None:
    pooled = "h = model(x)\n    loss = F.cross_entropy(torch.stack([part.mean(0) for part in h.split(1)])[: len(y)], TARGET)".replace(
        "TARGET", target
    )
    text = after(migrated(program((returned, "x, y", pooled, ""))))
    assert "accelerator.backward(loss)" in text


def test_a_list_that_becomes_a_tensor_under_its_name() -> None:
    returned = "labels = []\n    for _, each in samples:\n        labels.append(each[0])\n    labels = torch.tensor(labels)\n    nodes = nodes.to('cpu')\n    return labels, nodes"
    text = after(migrated(program((returned, "y, x", "loss = F.cross_entropy(model(x)[: len(y)], y)", ""))))
    assert "accelerator.backward(loss)" in text


def test_the_number_of_joined_rows_adds_up() -> None:
    text = (
        program(CASES[0])
        .replace("    print(loss.item())", "    nodes += len(y)\nprint(nodes)")
        .replace("model = Net()", "model = Net()\nnodes = 0")
    )
    assert "nodes += accelerator.global_sum(len(y))" in after(migrated(text))


POOLED = """\
    def forward(self, nodes, graph):
        h = self.layer(nodes)
        size = int(graph.max()) + 1
        return torch.zeros(size, 3).index_add_(0, graph, h)
"""


def test_nodes_that_a_model_pools_for_each_graph_are_not_compared() -> None:
    text = program(
        (
            "graph = torch.cat([torch.full((len(nodes),), i) for i, (nodes, _) in enumerate(samples)])\n    return nodes, graph, torch.tensor([labels[0] for _, labels in samples])",
            "x, graph, y",
            "loss = F.cross_entropy(model(x, graph), y)",
        )
    )  # type: ignore[arg-type]
    forward = "    def forward(self, nodes):\n        return self.layer(nodes)\n"
    result = migrated(text.replace(forward, POOLED))
    assert result.findings == []
    assert "accelerator.backward(loss)" in after(result)
