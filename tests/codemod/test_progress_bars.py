"""One process shows a progress bar, whatever the script itself asks for."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

OTHERS = "not accelerator.is_local_main_process"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", f", disable={OTHERS}"),
        (", disable=False", f", disable={OTHERS}"),
        (", disable=None", f", disable={OTHERS} or None"),
        (", disable=True", ", disable=True"),
        (", disable=quiet", f", disable=quiet or {OTHERS}"),
        (", disable=not loud", f", disable=not loud or {OTHERS}"),
        (", disable=quiet if loud else False", f", disable=(quiet if loud else False) or {OTHERS}"),
    ],
)
def test_other_processes_show_none(given: str, expected: str) -> None:
    loop = STEP.replace("in loader", f"in tqdm(loader{given})")
    assert f"in tqdm(loader{expected}):" in after(migrated(script(f"from tqdm import tqdm\nquiet, loud = bool(loader), True\n{loop}")))
