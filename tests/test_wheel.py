"""The wheel, built and installed: it holds everything, and its commands work from anywhere."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from accel_migrate import __version__
from accel_migrate.resources import resource

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout, with no network and nothing but hatchling."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], ROOT)
    (file,) = folder.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what an installer unpacks from the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def run(command: list[str], folder: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_everything_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("codemod/accel_migrate", "runtime/accel_runtime"):
        folder = ROOT / package
        expected = {str(file.relative_to(folder.parent)) for file in folder.rglob("*.py")}
        assert expected <= names
    skill = "single-gpu-to-accelerate"
    files = [file for file in (ROOT / "skill" / skill).rglob("*") if file.is_file() and file.suffix != ".pyc"]
    assert {f"accel_migrate/.agents/skills/{file.relative_to(ROOT / 'skill')}" for file in files} <= names
    for data in ("templates", "examples"):
        files = [file for file in (ROOT / data).rglob("*") if file.is_file() and file.suffix != ".pyc"]
        assert files
        assert {f"accel_migrate/_data/{file.relative_to(ROOT)}" for file in files} <= names
    assert not [name for name in names if name.startswith("tests/") or name.endswith(".pyc")]


def test_metadata(wheel: Path) -> None:
    info = f"accel_migrate-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{info}/METADATA").decode()
        commands = archive.read(f"{info}/entry_points.txt").decode()
        assert f"{info}/licenses/LICENSE" in archive.namelist()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Dist: torch>=2.6; extra == 'runtime'" in metadata
    assert "accel-migrate = accel_migrate.command.cli:main" in commands
    assert "accel = accel_migrate.command.umbrella:main" in commands


@pytest.mark.parametrize(("module", "argv"), [("cli", ["--version"]), ("umbrella", ["migrate", "--version"])])
def test_commands_run_from_the_root_folder(module: str, argv: list[str], installed: Path) -> None:
    code = f"import sys; from accel_migrate.command.{module} import main; sys.exit(main({argv}))"
    out = run([sys.executable, "-c", code], Path("/"), PYTHONPATH=str(installed))
    assert out == f"accel-migrate {__version__}\n"


def test_data_is_found_installed_and_in_the_checkout(installed: Path) -> None:
    code = "from accel_migrate.resources import resource; print(resource('templates'))"
    out = run([sys.executable, "-c", code], Path("/"), PYTHONPATH=str(installed))
    assert Path(out.strip()) == installed / "accel_migrate" / "_data" / "templates"
    assert resource("templates") == ROOT / "templates"
    code = "from accel_migrate.assistants.bundle import NAME, skill_files, skill_folder; print(skill_folder(), 'SKILL.md' in skill_files())"
    out = run([sys.executable, "-c", code], Path("/"), PYTHONPATH=str(installed))
    assert out.split() == [str(installed / "accel_migrate" / ".agents" / "skills" / "single-gpu-to-accelerate"), "True"]
    with pytest.raises(FileNotFoundError, match="nonsense/ is missing from the installation"):
        resource("nonsense")
