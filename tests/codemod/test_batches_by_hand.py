"""Kinds of batches made without a loader: each is cut once, where the step that trains on it gets it."""

from __future__ import annotations

import textwrap

import pytest

from accel_migrate.access import Unreachable
from codemod.memory import after, migrated
from codemod.test_by_hand import START

STEP = "optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)\nloss.backward()\noptimizer.step()\n"
KINDS = {
    "a generator": (
        """\
def batches(n):
    order = torch.randperm(len(inputs))
    for i in range(0, len(inputs), n):
        j = order[i:i+n]
        yield inputs[j], targets[j]

for epoch in range(3):
    for x, y in batches(32):
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "an enumerated generator of shuffled indices": (
        """\
import numpy as np
def batches(n):
    order = np.arange(400)
    np.random.shuffle(order)
    for b in range(400 // n):
        j = order[b * n:(b + 1) * n]
        yield inputs[j], targets[j]

for epoch in range(3):
    for step, (x, y) in enumerate(batches(32)):
        # one step
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "data that are split": (
        """\
for epoch in range(3):
    for x, y in zip(inputs.split(32), torch.split(targets, 32)):
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "lists of batches": (
        """\
xs = [torch.randn(32, 8) for _ in range(9)]
ys = [torch.randint(0, 2, (32,)) for _ in range(9)]
for epoch in range(3):
    for x, y in zip(xs, ys):
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "a list of pairs": (
        """\
data = [(inputs[i:i+32], targets[i:i+32]) for i in range(0, 400, 32)]
for epoch in range(3):
    import random
    random.shuffle(data)
    for x, y in data:
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "a list made for each epoch": (
        """\
for epoch in range(3):
    data = [get_batch() for _ in range(9)]
    for x, y in data:
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "batches appended to a list": (
        """\
data = []
for i in range(0, 400, 32):
    x = inputs[i:i+32]
    y = targets[i:i+32]
    data.append((x, y))
for epoch in range(3):
    for x, y in data:
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "a counter times the size": (
        """\
for epoch in range(3):
    for b in range(400 // 32):
        x, y = inputs[b*32:(b+1)*32], targets[b*32:(b+1)*32]
        STEP
""",
        "x, y = accelerator.shard_batch((inputs[b*32:(b+1)*32], targets[b*32:(b+1)*32]))",
    ),
    "bounds in variables": (
        """\
for epoch in range(3):
    for b, i in enumerate(range(0, 400, 32)):
        s = i
        e = s + 32
        x = inputs[s:e]
        y = targets[s:e]
        STEP
""",
        "x = accelerator.shard_batch(inputs[s:e])",
    ),
    "a number that moves on": (
        """\
for epoch in range(3):
    i = 0
    while i < 400:
        x = inputs[i:i+32]
        y = targets[i:i+32]
        STEP
        i += 32
""",
        "x = accelerator.shard_batch(inputs[i:i+32])",
    ),
    "the next batch ahead": (
        """\
x, y = get_batch()
for step in range(9):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    x, y = get_batch()
    loss.backward()
    optimizer.step()
""",
        "loss = F.cross_entropy(model(x), y)\n    x, y = accelerator.shard_batch(get_batch())",
    ),
    "slices right in the call": (
        """\
for i in range(0, 400, 32):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs[i:i+32]), targets[i:i+32])
    loss.backward()
    optimizer.step()
""",
        "model(accelerator.shard_batch(inputs[i:i+32]))",
    ),
    "a batch to look at": (
        """\
xb, yb = get_batch()
print(xb.shape, yb.shape)
print(model(xb).mean().item())
for step in range(9):
    x, y = get_batch()
    STEP
""",
        "print(xb.shape, yb.shape)",
    ),
    "next of a generator": (
        """\
def forever():
    while True:
        yield get_batch()
it = forever()
for step in range(9):
    x, y = next(it)
    STEP
""",
        "x, y = accelerator.shard_batch(next(it))",
    ),
    "a class with __iter__": (
        """\
class Batches:
    def __init__(self, x, y, n):
        self.x, self.y, self.n = x, y, n
    def __iter__(self):
        for i in range(0, len(self.x), self.n):
            yield self.x[i:i+self.n], self.y[i:i+self.n]
    def __len__(self):
        return len(self.x) // self.n
loader = Batches(inputs, targets, 32)
for epoch in range(3):
    for x, y in loader:
        STEP
""",
        "x, y = accelerator.shard_batch((x, y))",
    ),
    "a class that hands out batches": (
        """\
class Lite:
    def __init__(self, n):
        self.n = n
        self.pos = 0
    def next_batch(self):
        x = inputs[self.pos:self.pos+self.n]
        y = targets[self.pos:self.pos+self.n]
        self.pos += self.n
        if self.pos + self.n > len(inputs):
            self.pos = 0
        return x, y
loader = Lite(32)
for step in range(9):
    x, y = loader.next_batch()
    STEP
""",
        "x, y = accelerator.shard_batch(loader.next_batch())",
    ),
    "slices of scikit-learn": (
        """\
from sklearn.utils import gen_batches
for epoch in range(3):
    for s in gen_batches(400, 32):
        x, y = inputs[s], targets[s]
        STEP
""",
        "x, y = accelerator.shard_batch((inputs[s], targets[s]))",
    ),
    "lists of samples": (
        """\
samples = []
i = 0
while i < 300:
    samples.append(inputs[i].tolist())
    i += 3
for epoch in range(3):
    for b in range(len(samples) // 8):
        batch = samples[b * 8:(b + 1) * 8]
        rows = []
        for r in batch:
            rows.append([float(v) for v in r])
        x = torch.tensor(rows)
        y = (x.sum(1) > 0).long()
        STEP
""",
        "batch = accelerator.shard_batch(samples[b * 8:(b + 1) * 8])",
    ),
    "windows made before": (
        """\
tokens = list(range(500))
seqs = []
for i in range(0, 400, 8):
    chunk = tokens[i:i+8]
    seqs.append(chunk)
seqs = torch.tensor(seqs).float()
for epoch in range(3):
    for i in range(0, 50, 16):
        x = seqs[i:i+16]
        y = targets[i:i+16]
        STEP
""",
        "x = accelerator.shard_batch(seqs[i:i+16])",
    ),
    "all of a batch handed over": (
        """\
class N(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 2)
    def forward(self, x, y):
        return F.cross_entropy(self.l(x), y)
model = N()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    loss = model(*get_batch())
    loss.backward()
    optimizer.step()
""",
        "loss = model(*accelerator.shard_batch(get_batch()))",
    ),
}


@pytest.mark.parametrize(("batches", "cut"), KINDS.values(), ids=KINDS)
def test_each_batch_is_cut_once(batches: str, cut: str) -> None:
    result = migrated(START + _with_steps(batches))
    text = after(result)
    assert result.status == "changed" and not result.findings
    assert cut in text and "shard_batch(accelerator" not in text and text.count("shard_batch") <= 2


def _with_steps(batches: str) -> str:
    lines = (
        textwrap.indent(STEP, line[: -len("STEP")]) if line.strip() == "STEP" else f"{line}\n"
        for line in batches.splitlines()
    )
    return "".join(lines)


def test_rows_that_are_turned_into_one_sequence_are_not_cut() -> None:
    batches = """\
for i in range(0, 400, 32):
    x = inputs[i : i + 32].unsqueeze(0)
    y = targets[i : i + 32].unsqueeze(0)
    STEP
"""
    assert migrated(START + _with_steps(batches)).status == "refused"


def test_the_processes_of_a_distributed_script_make_their_own_batches() -> None:
    setup = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
    text = after(migrated(START + setup + _with_steps("for step in range(9):\n    x, y = get_batch()\n    STEP\n")))
    assert "accelerator.backward(loss)" in text and "shard_batch" not in text


def test_rows_that_are_looked_at_before_they_are_cut_are_nobodys_figures() -> None:
    batches = """\
samples = [[float(i + k) for k in range(8)] for i in range(64)]
for piece in range(2):
    for sample in samples[piece * 32 : (piece + 1) * 32]:
        print(sample[0], sum(sample))
for step in range(4):
    x = torch.tensor(samples[step * 16 : (step + 1) * 16])
    y = (x.sum(1) > 0).long()
    STEP
"""
    result = migrated(START + _with_steps(batches))
    assert "accelerator.print(sample[0], sum(sample))" in after(result) and not result.findings


def test_a_batch_that_cannot_be_cut_where_it_is_made_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said like everything else that is out of reach, and nothing is written."""

    def unreachable(*_: object) -> str:
        raise Unreachable("models and losses are not given it")

    monkeypatch.setattr("accel_migrate.access.Access.__call__", unreachable)
    result = migrated(START + "for step in range(9):\n    x, y = get_batch()\n" + textwrap.indent(STEP, "    "))
    assert result.status == "refused"
    assert {finding.rule for finding in result.findings} == {"out-of-reach"}
