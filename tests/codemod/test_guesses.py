"""What a pass took for granted when it knew less does not stay."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import script
from codemod.memory import after, program

CODES = """\
import torch
import torch.nn.functional as F
from torch import nn


class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 4)

    def forward(self, z):
        near = torch.cdist(z, self.table.weight).argmin(1)
        found = self.table(near)
        used = F.one_hot(near, 6).float().mean(0)
        return F.mse_loss(found, z), z + (found - z).detach(), torch.exp(-(used * torch.log(used + 1e-9)).sum())
"""
CODER = """\
from codes import Codes
from torch import nn


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer, self.codes = nn.Linear(8, 4), nn.Linear(4, 8), Codes()

    def forward(self, x):
        code_loss, z, variety = self.codes(self.inner(x))
        return code_loss, self.outer(z), variety
"""
TRAIN = """\
from coder import Coder

coder = Coder()
adam = torch.optim.Adam(coder.parameters())
for x, y in loader:
    code_loss, back, variety = coder(x)
    loss = F.mse_loss(back, x) + code_loss
    adam.zero_grad()
    loss.backward()
    adam.step()
"""


def test_a_layer_of_a_file_read_later_returns_what_it_returns() -> None:
    """Its three results were rows while the class was not known yet."""
    result = migrate(program(script(TRAIN), {"coder": CODER, "codes": CODES}), Options())
    assert not result.findings
    assert "gather" not in after(result)
