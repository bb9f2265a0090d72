"""Seeding again, with draws in between, is no repetition of the first time."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

PAIR = """\
torch.manual_seed(7)
first = nn.Linear(8, 2)
torch.manual_seed(7)
second = nn.Linear(8, 2)
"""


def test_networks_that_begin_alike_still_do() -> None:
    text = after(migrated(script(PAIR + STEP)))
    assert text.count("set_seed(7)") == 2


@pytest.mark.parametrize("package", ["import random", "import numpy as np"])
def test_streams_that_were_seeded_once_are_not_seeded_again(package: str) -> None:
    text = after(migrated(package + "\n" + script(PAIR + STEP)))
    assert text.count("torch.manual_seed(7)") == 2
    assert "set_seed" not in text


def test_lines_with_nothing_drawn_between_them_become_one() -> None:
    code = """\
import random
SEED = 3
random.seed(SEED)
torch.backends.cudnn.benchmark = True
torch.manual_seed(SEED)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(SEED)
    torch.backends.cudnn.deterministic = True
"""
    text = after(migrated(script(code + STEP)))
    assert text.count("seed(SEED)") == 1
    assert "    torch.backends.cudnn.deterministic = True" in text


def test_a_draw_between_two_streams_keeps_their_lines() -> None:
    code = "import random\nrandom.seed(3)\nrandom.shuffle(order := list(range(9)))\nshow(order)\ntorch.manual_seed(3)\n"
    text = after(migrated(script("from somewhere import show\n" + code + STEP)))
    assert "random.seed(3)" in text and "torch.manual_seed(3)" in text


def test_an_epoch_that_seeds_one_stream_leaves_the_others() -> None:
    code = "import random\nfor epoch in range(3):\n    torch.manual_seed(epoch)\n" + "".join(
        f"    {line}\n" for line in STEP.splitlines()
    )
    assert "torch.manual_seed(epoch)" in after(migrated(script(code)))
