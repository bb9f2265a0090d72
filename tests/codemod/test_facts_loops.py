"""Which loops run over loaders, which of them train, and where evaluation loops gather."""

from __future__ import annotations

import ast
import textwrap

import pytest

from accel_migrate.facts.facts import Facts
from codemod.marked import STEP, marked_lines, script
from codemod.memory import facts_of

NO_LOADER = {
    "a loop over epochs": "for epoch in range(3):\n    epoch",
    "a loop over the layers of a model": "for layer in model:\n    layer",
    "a loop over parameters": "for p in model.parameters():\n    p",
    "a loop over numbers named loader": "loader = [1, 2]\nfor x in loader:\n    x",
    "a loop over the data set": "for x, y in dataset:\n    x",
    "a loop over batch indices": "for i in range(len(loader)):\n    i",
    "a loop over loaders": "for part in [loader, loader]:\n    part",
}
TRAINING = {
    "a plain loop": "for x, y in loader:  # <-\n    model(x).sum().backward()",
    "with enumerate": "for i, (x, y) in enumerate(loader):  # <-\n    model(x).sum().backward()",
    "with a progress bar": "from tqdm import tqdm\nfor x, y in tqdm(loader):  # <-\n    model(x).sum().backward()",
    "with a bar around enumerate": (
        "from tqdm import tqdm\nfor i, (x, y) in tqdm(enumerate(loader), total=3):  # <-\n    model(x).sum().backward()"
    ),
    "two loaders side by side": "for (x, y), (u, v) in zip(loader, loader):  # <-\n    (model(x) + model(u)).sum().backward()",
    "by way of an iterator": "batches = iter(loader)\nfor x, y in batches:  # <-\n    model(x).sum().backward()",
    "a step in a function": "def step(x):\n    model(x).sum().backward()\nfor x, y in loader:  # <-\n    step(x)",
    "a step in a method": (
        "class T:\n    def step(self, x):\n        model(x).sum().backward()\nt = T()\nfor x, y in loader:  # <-\n    t.step(x)"
    ),
    "a step in a closure": (
        "for x, y in loader:  # <-\n    def closure():\n        loss = model(x).sum()\n        loss.backward()\n        return loss\n    optimizer.step(closure)"
    ),
    "a scaled step": "s = torch.amp.GradScaler()\nfor x, y in loader:  # <-\n    s.scale(model(x).sum()).backward()",
    "a loader by way of a parameter": "def train(data):\n    for x, y in data:  # <-\n        model(x).sum().backward()\ntrain(loader)",
    "a loader in an attribute": (
        "class T:\n    def __init__(self, data):\n        self.data = data\n    def run(self):\n        for x, y in self.data:  # <-\n"
        "            model(x).sum().backward()\nT(loader).run()"
    ),
    "a loader in a dict, phase by phase": (
        "loaders = {'train': loader, 'val': loader}\nfor phase in ('train', 'val'):\n    for x, y in loaders[phase]:  # <-\n"
        "        loss = model(x).sum()\n        if phase == 'train':\n            loss.backward()"
    ),
    "a generator of the project around a loader": (
        "def pairs(data):\n    for x, y in data:\n        yield x, y\nfor x, y in pairs(loader):  # <-\n    model(x).sum().backward()"
    ),
}
EVALUATION = {
    "without gradients": "with torch.no_grad():\n    for x, y in loader:  # <-\n        model(x)",
    "in a function with a decorator": "@torch.no_grad()\ndef f():\n    for x, y in loader:  # <-\n        model(x)\nf()",
    "in evaluation mode only": "model.eval()\nfor x, y in loader:  # <-\n    model(x)",
    "a look at the data": "for x, y in loader:  # <-\n    x.mean()",
}


def loops(facts: Facts, trains: bool) -> set[int]:
    return {loop.node.lineno for loop in facts.loops.values() if isinstance(loop.node, ast.For) and loop.trains is trains}


@pytest.mark.parametrize("code", NO_LOADER.values(), ids=NO_LOADER)
def test_is_no_loop_over_a_loader(code: str) -> None:
    assert not facts_of(script(code)).loops


@pytest.mark.parametrize("code", TRAINING.values(), ids=TRAINING)
def test_trains(code: str) -> None:
    text = script(code)
    facts = facts_of(text)
    assert marked_lines(text) <= loops(facts, trains=True)


@pytest.mark.parametrize("code", EVALUATION.values(), ids=EVALUATION)
def test_evaluates(code: str) -> None:
    text = script(code)
    facts = facts_of(text)
    assert marked_lines(text) == loops(facts, trains=False)
    assert not loops(facts, trains=True)


# -- gathering --------------------------------------------------------------------------------------------
NOWHERE = {
    "a training loop": STEP,
    "an evaluation that looks at nothing": "for x, y in loader:\n    model(x)",
    "an evaluation that only keeps the loss of the batch": "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)",
    "a loop without a model": "for x, y in loader:\n    print(x.mean())",
}
GATHERED = {
    "outputs and targets": ("out = model(x)  # <-\nhits += (out.argmax(1) == y).sum()", {"out", "y"}),
    "outputs only, where no target is read": ("out = model(x)  # <-\nresults.append(out)", {"out"}),
    "after the last of two models": ("a = model(x)\nb = model(x)  # <-\nhits += (a == b).sum()", {"a", "b"}),
    "not what only the model needs": ("z = x * 2\nout = model(z)  # <-\nhits += (out.argmax(1) == y).sum()", {"out", "y"}),
    "under autocast": ("with torch.autocast('cuda'):\n    out = model(x)  # <-\nhits += (out.argmax(1) == y).sum()", {"out", "y"}),
}


@pytest.mark.parametrize("code", NOWHERE.values(), ids=NOWHERE)
def test_gathers_nowhere(code: str) -> None:
    assert not facts_of(script(code)).gathers


@pytest.mark.parametrize(("body", "names"), GATHERED.values(), ids=GATHERED)
def test_gathers_after_the_last_forward_pass(body: str, names: set[str]) -> None:
    text = script("hits, results = 0, []\nfor x, y in loader:\n" + textwrap.indent(body, "    ") + "\nprint(hits, results)")
    (gather,) = facts_of(text).gathers.values()
    assert {gather.statement.lineno} == marked_lines(text)
    assert set(gather.names) == names
    assert not gather.paths
    assert not gather.hoisted


def test_parts_of_a_batch_get_names_of_their_own() -> None:
    text = script("hits = 0\nfor batch in loader:\n    out = model(batch['x'])\n    hits += (out.argmax(1) == batch['labels']).sum()\nprint(hits)")
    (gather,) = facts_of(text).gathers.values()
    assert gather.paths == {"batch['labels']": "labels"}


def test_a_nested_forward_pass_is_taken_out() -> None:
    text = script("hits = 0\nfor x, y in loader:\n    hits += (model(x).argmax(1) == y).sum()\nprint(hits)")
    (gather,) = facts_of(text).gathers.values()
    assert list(gather.hoisted.values()) == ["output"]
    assert set(gather.names) == {"y"}
