"""Functions whose arguments and readings are the same again are followed, not run; the facts are those of running them."""

from __future__ import annotations

from collections import Counter

import pytest

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.interpret import ProjectMachine, gather_facts
from accel_migrate.facts.machine import Machine
from accel_migrate.facts.tracing import Tracing
from accel_migrate.migrate import migrate
from accel_migrate.project import Project
from accel_migrate.result import Options
from codemod.memory import program

NETS = """
import torch
from torch import nn

SIZES = {}

class Block(nn.Module):
    def __init__(self, width, layer=nn.Linear):
        super().__init__()
        self.layer = layer(width, width)
        self.scale = nn.Parameter(torch.ones(1))
        self.kept = []

    def forward(self, x):
        y = self.layer(x) * self.scale
        for part in [y, x]:
            self.kept.append(part.mean().item())
        return y

class Net(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(8) for _ in range(depth)])
        self.head = make("head", out=2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def make(name, **options):
    SIZES[name] = options
    return nn.Linear(8, SIZES[name]["out"])
"""

TRAIN = """
import torch
from torch import nn
from nets import Net

class Meter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value, n):
        self.sum += value * n
        self.count += n

def evaluate(model, loader, meter):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            meter.update(nn.functional.cross_entropy(model(x), y).item(), len(x))
    return meter.sum / meter.count

def fit(model, loader, optimizer, history):
    for epoch in range(3):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append({"loss": loss.item(), "rows": len(x)})
        print(evaluate(model, loader, Meter()))

data = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
model = Net(2)
fit(model, loader, torch.optim.SGD(model.parameters(), lr=0.1), [])
"""


def trained() -> Project:
    return program(TRAIN, {"nets": NETS})


def summary(facts: Facts) -> list[object]:
    """What the rules read."""
    bindings = [(b.target, b.values, b.order) for b in facts.bindings]
    conversions = {node: (c.values, c.how) for node, c in facts.conversions.items()}
    forwards = {node: (f.model, f.recorded, f.contexts) for node, f in facts.forwards.items()}
    tables = facts.values, facts.external, facts.methods, facts.callees, facts.callers, facts.constructions, facts.parts_of
    return [bindings, conversions, forwards, *map(dict, tables), dict(facts.optimized), facts.visited, facts.called_back]


def test_the_facts_are_those_of_running_every_function(monkeypatch: pytest.MonkeyPatch) -> None:
    project = trained()
    followed = summary(gather_facts(project))
    again = summary(gather_facts(project))  # by the traces of the first analysis
    run = ProjectMachine.run

    def without(self: ProjectMachine, last: bool) -> None:
        self.traces = None
        run(self, last)

    monkeypatch.setattr(ProjectMachine, "run", without)
    assert summary(gather_facts(project)) == followed == again


def test_what_is_the_same_again_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Counter[str] = Counter()
    body = Machine._by_body

    def counted(self: Machine, node, *given):  # type: ignore[no-untyped-def]
        runs[getattr(node, "name", "")] += 1
        return body(self, node, *given)

    monkeypatch.setattr(Machine, "_by_body", counted)
    project = trained()
    gather_facts(project)
    first = Counter(runs)
    gather_facts(project)
    assert first["make"] >= 1
    assert runs["make"] == first["make"]
    assert runs["fit"] > first["fit"]  # the loop that trains runs in every pass


def test_a_function_runs_again_where_it_reads_more(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[bool] = []
    followed = Tracing._followed

    def noted(self: Machine, trace, done) -> bool:  # type: ignore[no-untyped-def]
        outcomes.append(followed(self, trace, done))
        return outcomes[-1]

    monkeypatch.setattr(Tracing, "_followed", noted)
    text = "import torch\nBOX = {}\ndef get():\n    return BOX['net']\ndef late():\n    net = get()\n    return net\nlate()\nBOX['net'] = torch.nn.Linear(2, 2)\nx = late()\n"
    facts = gather_facts(program(text))
    assert not all(outcomes)
    call = facts.bindings[-1]
    assert any(getattr(v, "detail", "") == "torch.nn.Linear" for v in call.values)


def test_a_migration_leaves_no_traces_behind() -> None:
    project = trained()
    assert migrate(project, Options()).status == "changed"
    assert not project.traces.known
    assert not project.traces.slots.heap
