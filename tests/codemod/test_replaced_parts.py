"""A new last layer belongs to the model whose last layer it becomes: the whole model is prepared."""

from __future__ import annotations

import pytest

from codemod.marked import script
from codemod.memory import after, migrated

REPLACED = {
    "an attribute": ("net.fc = nn.Linear(512, 2)", "net.fc"),
    "an element of an attribute": ("net.classifier[6] = nn.Linear(4096, 2)", "net.classifier"),
    "an attribute of a part": ("net.heads.last = nn.Linear(9, 2)", "net.heads.last"),
}


@pytest.mark.parametrize(("replace", "trained"), REPLACED.values(), ids=REPLACED)
def test_the_model_is_prepared_and_not_its_new_part(replace: str, trained: str) -> None:
    code = f"from torchvision import models\nnet = models.vgg11()\n{replace}\nadam = torch.optim.Adam({trained}.parameters())\n"
    loop = "for x, y in loader:\n    F.cross_entropy(net(x), y).backward()\n    adam.step()\n"
    text = after(migrated(script(code + loop)))
    (prepared,) = (line for line in text.splitlines() if "accelerator.prepare(" in line)
    assert {"net", "adam"} <= set(prepared.replace(",", " ").replace("(", " ").replace(")", " ").split())
    assert trained not in prepared
