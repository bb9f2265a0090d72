"""The first rows of a batch are chosen once the rows of all processes are there."""

from __future__ import annotations

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.result import Options
from codemod.marked import STEP, script
from codemod.memory import after, program


def migrated(lines: str) -> tuple[str, list[str]]:
    result = migrate(program(script("import numpy as np\n" + STEP + lines), {}), Options())
    return after(result), [finding.rule for finding in result.findings]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("y.data[:5].cpu().numpy()", "accelerator.gather_for_metrics(y.data)[:5].cpu().numpy()"),
        ("y[:5].data.numpy()", "accelerator.gather_for_metrics(y)[:5].data.numpy()"),
        ("y[2:6, :1].cpu().tolist()", "accelerator.gather_for_metrics(y)[2:6, :1].cpu().tolist()"),
        ("y.detach()[:4].mean().item()", "accelerator.gather_for_metrics(y.detach())[:4].mean().item()"),
    ],
)
def test_rows_are_gathered_before_they_are_sliced(shown: str, expected: str) -> None:
    text, findings = migrated(f"    print({shown})\n")
    assert expected in text
    assert findings == []


def test_a_mean_over_rows_of_two_slices_is_reported() -> None:
    _text, findings = migrated("    print((y[:4] - x[2:6].detach()).mean().item())\n")
    assert findings == ["local-figure"]


def test_rows_that_were_sliced_before_are_reported() -> None:
    text, findings = migrated("    first = y[:4]\n    print(first.tolist())\n")
    assert "local-figure" in findings
    assert "gather" not in text


def test_the_mean_of_all_rows_stays_one_figure() -> None:
    text, findings = migrated("    print(y[:].mean().item())\n")
    assert "accelerator.global_mean(y[:].mean()).item()" in text
    assert findings == []
