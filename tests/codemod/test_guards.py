"""Neighbouring statements that write stand under one guard."""

from __future__ import annotations

from codemod.marked import in_step
from codemod.memory import after, migrated

FOLDERS = """\
import os
if not os.path.exists("runs/a"):
    if not os.path.exists("runs"):
        os.mkdir("runs")
    os.mkdir("runs/a")
"""


def test_folders_made_one_after_the_other_stand_under_one_guard() -> None:
    assert after(migrated(in_step(FOLDERS))).count("is_main_process") == 1
