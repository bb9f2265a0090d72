"""What happens to models and optimizers ahead of `prepare`, and what is made anew after it."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

INIT = "def init(net):\n    for p in net.parameters():\n        p.data.normal_()\n\n\n"


@pytest.mark.parametrize("line", ["init(model)", "model.apply(init)"])
def test_weights_are_drawn_first(line: str) -> None:
    text = after(migrated(INIT + script(line + "\n" + STEP)))
    assert text.index(f"\n{line}\n") < text.index("accelerator.prepare(")


ANEW = """\
for step, (x, y) in enumerate(loader):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step == 3:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
"""


def test_an_optimizer_that_a_loop_makes_anew_is_prepared_both_times() -> None:
    text = after(migrated(script(ANEW)))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in text
    assert text.endswith("lr=0.01)\n        optimizer = accelerator.prepare(optimizer)\n")


def test_a_model_that_a_library_runs_is_on_the_device_by_then() -> None:
    code = "from thop import profile\n\nmodel = nn.Linear(8, 2).cuda()\nprofile(model, inputs=(torch.randn(1, 8).cuda(),))\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    assert "nn.Linear(8, 2).to(accelerator.device)\n" in after(migrated(script(code + STEP)))
