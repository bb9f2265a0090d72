"""A figure that a helper makes of a mean, shown under a guard."""

from __future__ import annotations

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program

HELPERS = "import torch\n\nto_decibel = lambda x: torch.log(x)\n"


def test_a_lambda_of_another_file_is_not_reached_into() -> None:
    step = STEP + "    level = to_decibel(loss.detach())\n    if y.sum() >= 0:\n        tqdm.write(f'{level.item()}')\n"
    text = script("from helpers import to_decibel\nfrom tqdm import tqdm\n" + step)
    result = migrate(program(text, {"helpers": HELPERS}), Options())
    assert result.status == "changed"
    assert "global_x" not in after(result)
