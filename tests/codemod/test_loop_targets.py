"""A loop's target is never the place where an object is made: it is prepared where it was made, and once."""

from __future__ import annotations

import pytest

from codemod.memory import after, migrated

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader


class Runner:
    def __init__(self):
        self.nets = {{"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)}}
        self.opts = {{k: torch.optim.SGD(m.parameters(), lr=0.1) for k, m in self.nets.items()}}

    def run(self, loader):
        for key in self.nets:
            for x, y in loader:
                loss = nn.functional.cross_entropy(self.nets[key](x), y)
                self.opts[key].zero_grad()
                loss.backward()
                self.opts[key].step()
        for {targets} in {pairs}:
            torch.save(net.state_dict(), f"{{title}}.pt")


def main():
    Runner().run(DataLoader(samples(), batch_size=8, shuffle=True))


main()
"""
LOOPS = {
    "pairs in a list": ("title, net", '[("small", self.nets["a"]), ("large", self.nets["b"])]'),
    "pairs in a tuple": ("title, net", '(("small", self.nets["a"]), ("large", self.nets["b"]))'),
    "the dict's own": ("title, net", "self.nets.items()"),
    "the models alone": ("net", 'self.nets.values() if (title := "x") else ()'),
}


@pytest.mark.parametrize(("targets", "pairs"), LOOPS.values(), ids=LOOPS)
def test_is_prepared_where_it_is_made(targets: str, pairs: str) -> None:
    text = after(migrated(PROGRAM.format(targets=targets, pairs=pairs)))
    assert text.count("accelerator.prepare(nn.Linear(4, 2))") == 2
    assert "net = " not in text and "title = " not in text
