"""What holds for the migration of any program."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_migrate.errors import UserError
from accel_migrate.result import Options
from accel_migrate.source import read_source
from codemod.memory import after, migrated
from codemod.programs import Program, bodies, programs, renamed, wrapped

SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
OTHER_NAMES = [
    {"model": "zebra", "optimizer": "quagga", "loader": "okapi", "loss": "tapir", "device": "gnu", "x": "first", "y": "second"},
    {"model": "loader", "loader": "optimizer", "optimizer": "model"},
    {"loss": "device", "device": "loss"},
]
TARGETS = st.sampled_from([Options(), Options(target="accelerate")])


@SETTINGS
@given(programs(), TARGETS)
def test_any_program_is_migrated_and_the_result_compiles(program: Program, options: Options) -> None:
    result = migrated(program.text, options)
    assert result.status == "changed", result.reason
    compile(after(result), "after.py", "exec", ast.PyCF_ONLY_AST)


@SETTINGS
@given(programs(), TARGETS)
def test_a_second_run_changes_nothing(program: Program, options: Options) -> None:
    once = after(migrated(program.text, options))
    again = migrated(once, options)
    assert again.status == "unchanged"
    assert after(again) == once


@SETTINGS
@given(programs(), TARGETS)
def test_lines_that_no_rule_has_business_with_stay(program: Program, options: Options) -> None:
    kept = [line.strip() for line in after(migrated(program.text, options)).split("\n")]
    assert [line for line in kept if line in program.bystanders] == list(program.bystanders)


@SETTINGS
@given(programs(), TARGETS)
def test_all_runs_come_out_alike(program: Program, options: Options) -> None:
    first, second = migrated(program.text, options), migrated(program.text, options)
    assert after(first) == after(second)
    assert [f.message for f in first.findings] == [f.message for f in second.findings]


@SETTINGS
@given(bodies(), st.sampled_from(OTHER_NAMES))
def test_other_names_make_no_difference(body: list[str], names: dict[str, str]) -> None:
    text = wrapped("\n".join(body), "flat")
    assert after(migrated(renamed(text, names))) == renamed(after(migrated(text)), names)


@SETTINGS
@given(bodies(), st.sampled_from(["function", "method"]))
def test_a_function_around_everything_makes_no_difference(body: list[str], how: str) -> None:
    inside = _code(after(migrated(wrapped("\n".join(body), how))))
    assert set(_code(after(migrated(wrapped("\n".join(body), "flat"))))) <= set(inside)


def _code(text: str) -> list[str]:
    """Its statements' lines, long ones joined, without indentation."""
    return [line.strip() for line in ast.unparse(ast.parse(text)).split("\n")]


# -- files of other people ------------------------------------------------------------------------------
def site_packages() -> list[Path]:
    """Sixty files, always the same ones of an installation."""
    folder = Path(sysconfig.get_paths()["purelib"])
    wanted = [p for name in ("torch", "sklearn", "networkx", "hypothesis", "PIL", "sympy") for p in sorted((folder / name).rglob("*.py"))]
    small = [path for path in wanted if 500 < path.stat().st_size < 60_000]
    return random.Random(7).sample(small, 60) if len(small) > 500 else []


@pytest.mark.skipif(not site_packages(), reason="no larger packages are installed")
def test_files_that_train_nothing_are_left_alone() -> None:
    for path in site_packages():
        try:
            source = read_source(path)
        except UserError:
            continue
        result = migrated(source.text)
        trains = any(isinstance(n, ast.Attribute) and n.attr == "backward" for n in ast.walk(source.tree))
        assert trains or not result.changes, path
        assert result.reason or result.changes, path
