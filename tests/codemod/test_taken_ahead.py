"""What a guarded call takes out of a list, every process takes out of its own; moves beside each other go with their statement."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program

KEPT = """\
import os
best = []
for epoch in range(4):
    torch.save(model.state_dict(), f"{epoch}.pt")
    best.append((epoch, f"{epoch}.pt"))
    if len(best) > 2:
        os.remove(best.pop(0)[1])
"""


def migrated(code: str) -> str:
    return after(migrate(program(script(code), {}), Options()))


def test_the_entry_is_taken_out_above_the_guard() -> None:
    text = migrated(STEP + KEPT)
    assert "        taken = best.pop(0)[1]\n        if accelerator.is_main_process:\n            os.remove(taken)\n" in text


def test_what_stands_before_in_the_same_guard_runs_before() -> None:
    text = migrated(STEP + KEPT.replace("        os.remove(", "        os.rename(best[0][1], 'old.pt')\n        os.remove("))
    first, second = text.index("os.rename(best"), text.index("taken = best.pop(0)[1]")
    assert first < second < text.index("os.remove(taken)")


def test_moves_beside_each_other_go() -> None:
    text = migrated("other = nn.Linear(8, 2)\nsecond = torch.optim.SGD(other.parameters(), lr=0.1)\nif torch.cuda.is_available():\n    model.cuda(), other.cuda()\n" + STEP + "    other(x).sum().backward()\n    second.step()\n")
    assert "is_available" not in text
    assert "cuda" not in text
