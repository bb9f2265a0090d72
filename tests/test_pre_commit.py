"""The hook definition for pre-commit."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from accel_migrate.command.arguments import parse_arguments
from accel_migrate.command.check_arguments import parse_check_arguments

MANIFEST = Path(__file__).parents[1] / ".pre-commit-hooks.yaml"


def test_pre_commit_accepts_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    validate = pytest.importorskip("pre_commit.commands.validate_manifest").validate_manifest
    assert validate([str(MANIFEST)]) == 0, capsys.readouterr().out


def test_the_hooks_are_command_lines_that_exist() -> None:
    hook, check = yaml.safe_load(MANIFEST.read_text())
    assert (hook["entry"], check["entry"]) == ("accel-migrate", "accel check")
    assert parse_check_arguments(check["args"]).paths == ["."]
    assert not check["pass_filenames"]
    arguments = parse_arguments(hook["args"])
    assert (arguments.check, arguments.allow_nothing, arguments.paths) == (True, True, ["."])
    assert not hook["pass_filenames"]
