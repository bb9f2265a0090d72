"""Modules as `accel verify -m` and `accel-migrate -m` name them, and scripts that should be named so."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_migrate.command.cli import main as migrate
from accel_migrate.command.verify_modules import Named, migrated_named, script_named
from accel_migrate.errors import UserError
from accel_migrate.verify.errors import hint

TRAIN = """\
import torch
from torch.utils.data import DataLoader
from .data import samples

model = torch.nn.Linear(2, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(samples, batch_size=4):
    optimizer.zero_grad()
    model(x.cuda()).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("pkg", "out/pkg"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.py").write_text(TRAIN)
        (tmp_path / folder / "data.py").write_text("import torch\nsamples = torch.ones(8, 2)\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_module_may_be_named_by_its_file_too(package: Path) -> None:
    assert script_named("pkg.train", True) == script_named("pkg/train.py", True) == Named(Path("pkg/train.py"), "pkg.train")
    assert script_named("pkg/train.py", False) == Named(Path("pkg/train.py"))
    with pytest.raises(UserError, match=r"there is no module pkg.nothing in this folder \(pkg/nothing.py\)"):
        script_named("pkg.nothing", True)


def test_the_same_module_of_another_folder_runs_as_that_module_there(package: Path) -> None:
    original = script_named("pkg.train", True)
    assert migrated_named("out.pkg.train", original) == Named(Path("out/pkg/train.py"), "pkg.train", "out")
    assert migrated_named("pkg.data", original) == Named(Path("pkg/data.py"), "pkg.data")


def test_a_module_is_migrated_by_name(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert migrate(["-m", "pkg.train", "--check"]) == 1
    assert migrate(["-m", "pkg.missing"]) == 2
    assert "there is no module pkg.missing" in capsys.readouterr().err


def test_what_to_do_about_relative_imports() -> None:
    said = "ImportError: attempted relative import with no known parent package"
    assert "-m pkg.train)" in hint(said, "pkg/train.py")
    assert "-m PACKAGE.train, from the folder above" in hint(said, "train.py")
