"""Random training programs, put together from statements around a loop over a loader."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from hypothesis import strategies as st

IMPORTS = """\
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 2)

    def forward(self, x):
        return self.layer(x)
"""
SEEDS = ["torch.manual_seed(0)", "random.seed(0)\nnp.random.seed(0)\ntorch.manual_seed(0)", "torch.manual_seed(0)\nnp.random.seed(1)"]
DEVICES = [
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
    "use_cuda = torch.cuda.is_available()\ndevice = torch.device('cuda' if use_cuda else 'cpu')",
    "device = torch.device('cpu')",
]
LOADERS = [
    "loader = DataLoader(TensorDataset(torch.randn(99, 8), torch.randint(2, (99,))), batch_size=32)",
    "dataset = TensorDataset(torch.randn(99, 8), torch.randint(2, (99,)))\nloader = DataLoader(dataset, 16, shuffle=True, drop_last=True)",
]
MODELS = ["model = Net()", "model = nn.Linear(8, 2)", "model = nn.Sequential(\n    nn.Linear(8, 4),\n    nn.ReLU(),\n    nn.Linear(4, 2),\n)"]
OPTIMIZERS = ["optimizer = torch.optim.SGD(model.parameters(), lr=0.1)", "optimizer = torch.optim.AdamW([{'params': model.parameters()}])"]
EXTRAS = [
    "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)",
    "criterion = nn.CrossEntropyLoss()",
    "best = float('inf')",
    "model.load_state_dict(torch.load('old.pt'))",
]
HEADERS = [
    "for x, y in loader:",
    "for step, (x, y) in enumerate(loader):",
    "for batch in loader:\n    x, y = batch",
    "for x, y in loader:\n    x, y = x.to(device), y.to(device)",
    "for x, y in loader:\n    x = x.to(device, non_blocking=True)\n    y = y.to(device)",
]
LOSSES = [
    "loss = F.cross_entropy(model(x), y)",
    "out = model(x)\nloss = F.cross_entropy(out, y, reduction='sum') / len(x)",
    "out = model(x)\nloss = F.cross_entropy(out, y, ignore_index=1)",
    "loss = F.cross_entropy(model(x + torch.randn_like(x)), y)",
    "noise = torch.randn(x.size(0), 8)\nloss = F.cross_entropy(model(x + noise), y) + model(x).pow(2).mean()",
    "loss = sum(F.cross_entropy(model(x), y) for _ in range(2))",
    "loss = (model(x).logsumexp(1) - model(x)[:, 0]).mean().sqrt()",
]
LOGS = [
    "print(loss.item())",
    "total += loss.item() * len(x)",
    "seen += y.size(0)",
    "losses.append(loss.detach())",
    "if loss > 100:\n    raise SystemExit",
    "correct += (model(x).argmax(1) == y).sum().item()",
    "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
    "with open('log.txt', 'a') as file:\n    file.write(f'{loss:.3f}')",
]
ENDS = [
    "print(total / max(seen, 1), np.mean([float(v) for v in losses]))",
    "torch.save(model.state_dict(), 'model.pt')",
    "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'all.pt')",
    "with torch.no_grad():\n    for x, y in loader:\n        out = model(x.to(device))\n        correct += (out.argmax(1) == y.to(device)).sum().item()",
    "model.eval()\nhits = [model(x.to(device)).argmax(1).cpu() for x, y in loader]",
    "print(sum(p.numel() for p in model.parameters()))",
]
COUNTERS = "total, seen, correct, losses = 0.0, 0, 0, []"
BYSTANDERS = ["aside_{n}  =  [ {n},2 ]  # keep", "# about {n}:  see above", "assert  {n}<{n}+1 , 'aside'", "{{ 'aside' : {n} }}"]


@dataclass(frozen=True)
class Program:
    """A script, and the lines in it that no rule has any business with."""

    text: str
    bystanders: tuple[str, ...]


@st.composite
def bodies(draw: st.DrawFn) -> list[str]:
    """The statements of a program without its imports and classes, each a block of text."""
    loop = [draw(st.sampled_from(HEADERS))]
    logs = draw(st.lists(st.sampled_from(LOGS), max_size=4, unique=True))
    step = ["optimizer.zero_grad()", draw(st.sampled_from(LOSSES)), "loss.backward()", "optimizer.step()", *draw(st.permutations(logs))]
    loop += [textwrap.indent(statement, "    ") for statement in step]
    setup = draw(st.permutations([draw(st.sampled_from(LOADERS)), COUNTERS, f"{draw(st.sampled_from(MODELS))}\n{draw(st.sampled_from(OPTIMIZERS))}"]))
    extras = draw(st.lists(st.sampled_from(EXTRAS), max_size=2, unique=True))
    ends = draw(st.lists(st.sampled_from(ENDS), max_size=3, unique=True))
    seeds = draw(st.lists(st.sampled_from(SEEDS), max_size=1))
    return [*seeds, draw(st.sampled_from(DEVICES)), *setup, "model = model.to(device)", *extras, "\n".join(loop), *ends]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program at the top of a module, in a function or in a method, with bystanders between its statements."""
    statements, bystanders = [], []
    for n, statement in enumerate(draw(bodies())):
        aside = draw(st.sampled_from([None, *BYSTANDERS]))
        if aside is not None:
            bystanders.append(aside.format(n=n))
            statements.append(bystanders[-1])
        statements.append(statement)
    return Program(wrapped("\n".join(statements), draw(st.sampled_from(["flat", "function", "method"]))), tuple(bystanders))


def wrapped(body: str, how: str) -> str:
    """The whole script."""
    head = f"{IMPORTS}\n\n{NET}\n\n"
    if how == "function":
        return f"{head}def main():\n{textwrap.indent(body, '    ')}\n\n\nif __name__ == '__main__':\n    main()\n"
    if how == "method":
        return f"{head}class Experiment:\n    def run(self):\n{textwrap.indent(body, '        ')}\n\n\nExperiment().run()\n"
    return f"{head}{body}\n"


def renamed(text: str, names: Mapping[str, str]) -> str:
    """`text` with other variables; names that the tool derives from theirs follow."""
    words = {**names, **{f"global_{old}{nth}": f"global_{new}{nth}" for old, new in names.items() for nth in ("", "_2", "_3")}}
    return re.sub(r"(?<![.'\w])(\w+)(?!\w|'|\s*=[^=\s])", lambda match: words.get(match[1], match[1]), text)
