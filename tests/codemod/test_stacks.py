"""Modules of the project in stacks are run; hooks and forward passes that keep figures keep the global ones."""

from __future__ import annotations

import pytest

from codemod.marked import marked
from codemod.memory import after, migrated

TOP = """\
from collections import OrderedDict

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=16)
kept, seen = [], {}


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("var", torch.ones(8))
        self.register_buffer("count", torch.tensor(0.0))
        self.norms = []
        self.last = 0.0

    def forward(self, x):
        LINES
        return x - self.mean


class Block(nn.Sequential):
    def __init__(self):
        super().__init__(nn.ReLU(), Layer())


class Grown(nn.Sequential):
    def __init__(self):
        super().__init__()
        self.append(nn.ReLU())
        self.add_module("layer", Layer())

    def forward(self, x):
        return super().forward(x)


class Layers(nn.ModuleList):
    def __init__(self):
        super().__init__([Layer() for _ in range(3)])

    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


class Chain(nn.Sequential):
    def forward(self, x):
        for layer in self._modules.values():
            x = layer(x)
        return x


class Chained(nn.Sequential):
    def forward(self, x):
        for _, layer in reversed(self._modules.items()):
            x = layer(x)
        for layer in self.children():
            x = layer(x)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = LAYERS
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        RUN
        return self.last(x)


net = Net()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
HOOK
for x, y in loader:
    loss = F.cross_entropy(net(x), y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
"""
MEAN = "self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)"
STACKS = {
    "a sequence": ("nn.Sequential(Layer(), nn.ReLU())", "x = self.layers(x)"),
    "a sequence of a list": ("nn.Sequential(*[Layer() for _ in range(3)])", "x = self.layers(x)"),
    "sequences in a sequence": ("nn.Sequential(nn.ReLU(), nn.Sequential(Layer()))", "x = self.layers(x)"),
    "a list, looped over": ("nn.ModuleList([Layer() for _ in range(3)])", "for layer in self.layers:\n            x = layer(x)"),
    "a list, by its places": ("nn.ModuleList([nn.ReLU(), Layer()])", "x = self.layers[1](x)"),
    "a dict": ("nn.ModuleDict({'a': Layer()})", "x = self.layers['a'](x)"),
    "an ordered dict": ("nn.Sequential(OrderedDict([('a', nn.ReLU()), ('b', Layer())]))", "x = self.layers(x)"),
    "the items of a dict": ("nn.ModuleDict({'a': Layer()})", "for name, layer in self.layers.items():\n            x = layer(x)"),
    "a class of sequences": ("Block()", "x = self.layers(x)"),
    "a class of sequences that grow": ("Grown()", "x = self.layers(x)"),
    "a class of lists": ("Layers()", "x = self.layers(x)"),
    "a class that is given its parts": ("Chain(nn.ReLU(), Layer())", "x = self.layers(x)"),
    "a class that is given a list of parts": ("Chained(*[Layer() for _ in range(3)])", "x = self.layers(x)"),
}
UPDATES = {
    "counts of this batch and others": (
        "n = x.size(0)\n        tot = self.count + n\n        self.mean = self.mean + (x.mean(0) - self.mean) * n / tot\n        self.count = tot",
        ["tot = self.count + global_len(n)", "self.mean + global_sum((x.mean(0) - self.mean) * n) / tot"],
    ),
    "a variance in place": ("self.var.mul_(0.9).add_(x.var(0), alpha=0.1)", ["add_(gather_for_metrics(x).var(0), alpha=0.1)"]),
    "a deviation of the inputs": ("x = x / x.std(0)", ["x / gather_for_metrics(x).std(0)"]),
    "a variance times a count": ("self.var = self.var + x.var(0) * len(x)", ["gather_for_metrics(x).var(0) * global_len(x)"]),
    "a square": ("self.var = self.var + x.mean(0) ** 2", ["self.var + global_mean(x.mean(0)) ** 2"]),
    "a number in a list": ("self.norms.append(x.norm(dim=1).mean().item())", ["self.norms.append(global_mean(x.norm(dim=1).mean()).item())"]),
    "a number in an attribute": ("self.last = x.abs().mean().item()", ["self.last = global_mean(x.abs().mean()).item()"]),
}
HOOKS = {
    "a forward hook": ("def hook(module, inputs, output):\n    kept.append(output.mean().item())", "register_forward_hook(hook)", "global_mean(output.mean()).item()"),
    "a hook made by a function": (
        "def named(name):\n    def hook(module, inputs, output):\n        kept.append(inputs[0].mean().item())\n    return hook",
        "register_forward_hook(named('a'))", "global_mean(inputs[0].mean()).item()",
    ),
    "a hook before the pass": ("def hook(module, inputs):\n    kept.append(inputs[0].mean().item())", "register_forward_pre_hook(hook)", "global_mean(inputs[0].mean()).item()"),
}  # fmt: skip


def program(lines: str = MEAN, layers: str = "Layer()", run: str = "x = self.layers(x)", hook: str = "") -> str:
    return TOP.replace("LINES", lines).replace("LAYERS", layers).replace("RUN", run).replace("HOOK", hook)


@pytest.mark.parametrize(("layers", "run"), STACKS.values(), ids=STACKS)
def test_stacked_modules_are_run(layers: str, run: str) -> None:
    assert "0.1 * global_mean(x.detach().mean(0))" in after(migrated(program(layers=layers, run=run)))


@pytest.mark.parametrize(("lines", "expected"), UPDATES.values(), ids=UPDATES)
def test_each_factor_is_global(lines: str, expected: list[str]) -> None:
    result = migrated(program(lines))
    text = after(result)
    assert all(part in text for part in expected) and not result.findings


@pytest.mark.parametrize(("function", "register", "expected"), HOOKS.values(), ids=HOOKS)
def test_hooks_see_rows(function: str, register: str, expected: str) -> None:
    result = migrated(program(hook=f"{function}\n\n\nnet.last.{register}\n"))
    assert expected in after(result) and not result.findings


def test_rows_that_a_hook_keeps_are_gathered_where_they_are_read() -> None:
    hook = "def hook(module, inputs, output):\n    seen['out'] = output.detach()\n\n\nnet.last.register_forward_hook(hook)\n"
    text = after(migrated(program(hook=hook) + "    print(seen['out'].mean().item())\n"))
    assert "accelerator.global_mean(seen['out'].mean()).item()" in text


def test_a_stack_that_holds_itself_ends_nothing() -> None:
    lines = "net.layers = nn.ModuleList()\nnet.layers.append(net.layers)\nnet.layers.append(nn.ModuleList([net.layers]))\nfor layer in net.layers:\n    print(layer)\n"
    assert after(migrated(program() + lines))


def test_a_stack_made_of_the_old_one_under_its_name_ends_the_analysis() -> None:
    text = after(migrated(TOP.replace("LINES", "pass") + """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Sequential(nn.Linear(8, 2), Layer())
        self.head = nn.Sequential(self.head, Layer())
        self.rest = [Layer() for _ in range(2)]
        self.rest = nn.ModuleList(self.rest)
        self.head = nn.Sequential(self.head, *self.rest)

    def forward(self, x):
        return self.head(x)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""))
    assert "accelerator.backward(" in text


CHOSEN = """
models = nn.ModuleList([])
FIRST
if len(seen):
    models.append(Grown())
«models[PLACE]»
"""
CHOICE = "models.append({'a': Block, 'b': Layer}[str(kept)]())"


@pytest.mark.parametrize(
    ("first", "place", "expected"),
    [
        (CHOICE, "0", {"Block", "Layer"}),
        (CHOICE, "-1", {"Block", "Layer", "Grown"}),
        (CHOICE, "1", {"Block", "Layer", "Grown"}),
        (f"models.extend([Grown(), Layer()])\n{CHOICE}", "0", {"Block", "Layer", "Grown"}),
        (f"if kept:\n    {CHOICE}", "0", {"Block", "Layer", "Grown"}),
    ],
)
def test_the_first_of_a_list_is_what_was_put_there_first(first: str, place: str, expected: set[str]) -> None:
    found = marked(program() + CHOSEN.replace("FIRST", first).replace("PLACE", place))
    assert {value.cls.node.name for value in found.facts.of(found.node)} == expected
