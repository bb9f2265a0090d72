"""What accel-migrate makes is clean, but for what it leaves to a person itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_migrate.check.check import Wanted, check
from accel_migrate.edits import Severity
from accel_migrate.migrate import migrate
from accel_migrate.places import line_of
from accel_migrate.project import load_project
from accel_migrate.result import Options, Target

E2E = Path(__file__).parents[1] / "e2e"
SCRIPTS = [*sorted(E2E.glob("golden/*/before.py")), *sorted(E2E.glob("cases/*/before.py"))]


def name(path: Path) -> str:
    return path.parent.name


@pytest.mark.parametrize("target", ["accel_runtime", "accelerate"])
@pytest.mark.parametrize("path", SCRIPTS, ids=name)
def test_a_migrated_script_is_clean(path: Path, target: Target) -> None:
    project = load_project(path)
    result = migrate(project, Options(target=target))
    after = project.with_texts({change.source.path: change.after for change in result.changes})
    left = "accelerate-models" in {finding.rule for finding in result.findings}
    reported = {finding.rule for finding in result.findings}
    faults = [fault for fault in check(after, Wanted()).faults if fault.severity is not Severity.INFO and fault.rule not in reported]
    if left:  # training through a method of the model, for which Accelerate has no way
        faults = [fault for fault in faults if fault.rule != "non-forward-call-on-prepared-model"]
    assert not [(line_of(fault), fault.rule) for fault in faults]


@pytest.mark.parametrize("path", sorted(E2E.glob("golden/*/after.py")), ids=name)
def test_a_golden_result_is_clean(path: Path) -> None:
    assert not [f for f in check(load_project(path), Wanted()).faults if f.severity is not Severity.INFO]
