"""`accel verify` on scripts of other kinds: losses over tokens, accumulation by hand, processes of their own, notebooks, endless loops."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_migrate.command.verify import main
from accel_migrate.verify.job import Job
from accel_migrate.verify.report import DIFFERENT, EXPECTED, Comparison
from accel_migrate.verify.runs import Request
from accel_migrate.verify.verify import verify
from accel_migrate.verify.warm import ForkingRunner
from e2e.places import PRELOAD

VERIFIED, PROGRAMS = Path(__file__).parent / "verified", Path(__file__).parent / "programs_ddp"


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), preload=PRELOAD) as warm:
        yield warm


def compared(warm: ForkingRunner, original: Job, migrated: Job, timeout: float = 100, processes: int = 2) -> Comparison:
    return verify(Request(original, migrated, (processes,), steps=0, hang_seconds=5, timeout=timeout), warm).comparisons[0]


def changed(name: str, *pairs: tuple[str, str]) -> Job:
    text = (VERIFIED / name).read_text()
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return Job(VERIFIED, name, changed={name: text})


def test_means_over_unequal_numbers_of_tokens_are_named(warm: ForkingRunner) -> None:
    result = compared(warm, Job(VERIFIED, "tokens.py"), Job(VERIFIED, "tokens.py"))
    assert result.verdict == DIFFERENT
    assert any("unequal numbers of terms" in reason for reason in result.reasons), result


def test_accumulation_windows_of_another_length_are_named(warm: ForkingRunner) -> None:
    result = compared(warm, Job(VERIFIED, "tokens.py"), changed("tokens.py", ("step % 2", "step % 4")))
    assert "a step adds up 4 backward passes where the original adds up 2" in result.reasons[0], result


def test_checkpoints_of_models_and_optimizers_are_loaded_in_the_other(warm: ForkingRunner) -> None:
    saved = ("accelerator.get_state_dict(model)", '{"0." + k: v for k, v in accelerator.get_state_dict(model).items()}')
    result = compared(warm, Job(VERIFIED, "before.py"), changed("after.py", saved))
    assert any(d.kind == "loading" and "does not load in the original" in d.text for d in result.differences), result
    assert compared(warm, Job(VERIFIED, "before.py"), Job(VERIFIED, "after.py")).loaded == 2


@pytest.mark.parametrize("program", ["spawn_worker", "process_loop", "torchrun_setup"])
def test_a_ddp_script_is_compared_on_as_many_processes(tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(PROGRAMS / program, tmp_path / program)
    monkeypatch.chdir(tmp_path / program)
    assert main(["train.py", "--processes", "2"]) == 0, capfd.readouterr()
    assert "2 processes: same" in capfd.readouterr().out


def test_a_loop_without_end_is_one_message_and_leaves_nothing_running(warm: ForkingRunner) -> None:
    job = changed("after.py", ("for epoch in range(2):\n", "while accelerator.num_processes > 1:\n    torch.rand(9)\nfor epoch in range(2):\n"))
    result = compared(warm, Job(VERIFIED, "before.py"), job, timeout=8)
    assert [d.kind for d in result.differences] == ["timeout"]
    assert "process 1 stands at after.py" in result.differences[0].text




def test_a_module_of_a_migrated_project_imports_what_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    for folder, scale in (("pkg", 1.0), ("out/pkg", 2.0)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "train.py").write_text((VERIFIED / "before.py").read_text() + "\nfrom pkg.data import scale\nprint('scale', scale)\n")
        (tmp_path / folder / "data.py").write_text(f"scale = {scale}\n")
    monkeypatch.chdir(tmp_path)
    assert main(["-m", "pkg.train", "out.pkg.train", "--processes", "1", "--to-end"]) == 1
    assert "'scale 1.0' became 'scale 2.0'" in capfd.readouterr().out


def test_figures_of_one_process_in_a_table_are_named(warm: ForkingRunner) -> None:
    written = ("    accelerator.print(", "    print(epoch, loss.item(), file=open('log.txt', 'a') if accelerator.is_main_process else open(os.devnull, 'w'))\n    accelerator.print(")
    before = ("    print(", "    print(epoch, loss.item(), file=open('log.txt', 'a'))\n    print(")
    result = compared(warm, changed("before.py", before, ("import torch\n", "import os\n\nimport torch\n")), changed("after.py", written, ("import torch\n", "import os\n\nimport torch\n")))
    assert [d.kind for d in result.differences] == ["files"] * len(result.differences) != []
    assert "the training is the same and written figures are not: " in result.reasons[0], result


DRAWN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
x = torch.randn(40, 3)
sampler = WeightedRandomSampler(torch.arange(1.0, 41.0), num_samples=40{generator})
model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.25), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for (batch,) in DataLoader(TensorDataset(x), batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
"""


def test_other_samples_drawn_with_weights_are_other_random_numbers(warm: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DRAWN.format(generator=""))
    (tmp_path / "other.py").write_text(DRAWN.format(generator=", generator=torch.Generator().manual_seed(5)"))
    result = compared(warm, Job(tmp_path, "train.py"), Job(tmp_path, "other.py"), processes=1)
    assert result.verdict == EXPECTED, result
    assert "shuffle" in result.switched_off
