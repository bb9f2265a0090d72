"""The hook definition for pre-commit."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from accel_migrate.command.arguments import parse_arguments

MANIFEST = Path(__file__).parents[1] / ".pre-commit-hooks.yaml"


def test_pre_commit_accepts_the_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    validate = pytest.importorskip("pre_commit.commands.validate_manifest").validate_manifest
    assert validate([str(MANIFEST)]) == 0, capsys.readouterr().out


def test_the_hook_is_a_command_line_that_exists() -> None:
    (hook,) = yaml.safe_load(MANIFEST.read_text())
    assert hook["entry"] == "accel-migrate"
    arguments = parse_arguments(hook["args"])
    assert (arguments.check, arguments.allow_nothing, arguments.paths) == (True, True, ["."])
    assert not hook["pass_filenames"]
