"""`accel verify`: right migrations are the same, broken ones are caught, each with its reason."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_migrate.command.verify import main
from accel_migrate.verify.job import Job
from accel_migrate.verify.report import DIFFERENT, EXPECTED, SAME, Comparison
from accel_migrate.verify.runs import Request
from accel_migrate.verify.verify import verify
from accel_migrate.verify.warm import ForkingRunner
from e2e.mutations import MUTATIONS, Mutation
from e2e.places import PRELOAD

VERIFIED, GOLDEN = Path(__file__).parent / "verified", Path(__file__).parent / "golden"
ACCELERATE_PYTHON = os.environ.get("ACCELERATE_PYTHON")
QUICK = {"loader not prepared", "evaluation not gathered", "exception on one process"}
"""Broken in three different ways; the others are slow together."""


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkingRunner]:
    with ForkingRunner(tmp_path_factory.mktemp("runs"), preload=PRELOAD) as warm:
        yield warm


def compared(warm: ForkingRunner, migrated: Job, original: Job | None = None, processes: int = 2) -> Comparison:
    request = Request(original or Job(VERIFIED, "before.py"), migrated, (processes,), steps=0, hang_seconds=5, timeout=100)
    return verify(request, warm).comparisons[0]


def mutated(mutation: Mutation) -> Job:
    text = (VERIFIED / "after.py").read_text()
    for old, new in mutation.replaced:
        assert old in text, f"{mutation.name}: nothing to replace"
        text = text.replace(old, new)
    return Job(VERIFIED, "after.py", changed={"after.py": text})


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_the_right_migration_is_the_same(warm: ForkingRunner, processes: int) -> None:
    result = compared(warm, Job(VERIFIED, "after.py"), processes=processes)
    assert (result.verdict, result.differences, result.steps) == (SAME, [], 12)


@pytest.mark.parametrize("mutation", [pytest.param(m, id=m.name, marks=[] if m.name in QUICK else [pytest.mark.slow]) for m in MUTATIONS])
def test_a_broken_migration_is_caught_with_its_reason(warm: ForkingRunner, mutation: Mutation) -> None:
    result = compared(warm, mutated(mutation))
    said = "\n".join([*(f"{d.kind}: {d.text}" for d in result.differences), *result.reasons])
    if not mutation.kind:
        assert result.verdict == SAME, said
        return
    assert re.search(mutation.kind, " ".join(d.kind for d in result.differences)), said
    assert re.search(mutation.reason, said), said
    assert result.verdict == (EXPECTED if mutation.kind == "order" else DIFFERENT), said


def test_a_torchrun_script_for_gpus_trains_the_same_on_the_cpu_but_for_random_numbers(warm: ForkingRunner) -> None:
    result = compared(warm, Job(VERIFIED, "ddp.py", distributed=True), Job(VERIFIED, "single.py"))
    assert (result.verdict, result.switched_off) == (EXPECTED, ("dropout", "shuffle")), result


@pytest.mark.slow
@pytest.mark.skipif(not ACCELERATE_PYTHON, reason="ACCELERATE_PYTHON names no interpreter with accelerate")
@pytest.mark.parametrize(("batches", "verdict"), [("split_batches=True", EXPECTED), ("", DIFFERENT)])
def test_a_script_for_accelerate(tmp_path: Path, batches: str, verdict: str) -> None:
    text = (VERIFIED / "accelerate_split.py").read_text().replace("split_batches=True", batches)
    job = Job(VERIFIED, "accelerate_split.py", changed={"accelerate_split.py": text})
    with ForkingRunner(tmp_path, str(ACCELERATE_PYTHON), (*PRELOAD, "accelerate")) as warm:
        result = compared(warm, job, Job(VERIFIED, "single.py"))
    assert result.verdict == verdict, result
    assert verdict == EXPECTED or "the batch size counts per process" in " ".join(result.reasons)


def test_the_same_noise_for_every_process_is_named(warm: ForkingRunner) -> None:
    text = (GOLDEN / "gan" / "after.py").read_text()
    right = re.search(r"noise = accelerator\.draw\(torch\.randn, ", text)
    assert right is not None
    wrong = Job(GOLDEN / "gan", "after.py", changed={"after.py": text.replace(right[0], "noise = torch.randn(")})
    result = compared(warm, wrong, Job(GOLDEN / "gan", "before.py"))
    assert result.verdict == DIFFERENT
    assert any("every process draws the same random numbers in the training loop" in reason for reason in result.reasons), result


WHOLE_NUMBERS = """\
import torch
from accel_runtime import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(split_batches=True)
torch.manual_seed(0)
model = nn.Embedding(50, 3)
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(TensorDataset(torch.randn(24, 3)), batch_size=8))
for (x,) in loader:
    steps = torch.randint(0, 50, (len(x),))
    loss = (model(steps) - x).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
"""


def test_the_same_whole_numbers_for_every_process_are_named(warm: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WHOLE_NUMBERS)
    result = compared(warm, Job(tmp_path, "train.py"), Job(tmp_path, "train.py"))
    assert result.verdict == DIFFERENT
    assert any("every process draws the same random numbers in the training loop" in reason for reason in result.reasons), result


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    shutil.copy(VERIFIED / "before.py", tmp_path / "train.py")
    monkeypatch.chdir(tmp_path)
    assert main(["train.py", "--processes", "2", "--steps", "3", "--format", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert (report["verdict"], report["comparisons"][0]["steps"], len(report["losses"]["2"])) == (SAME, 3, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"], "nothing is written beside the script"
    assert main(["missing.py"]) == 2
    assert capfd.readouterr().err == "accel verify: error: missing.py: there is no such file\n"


AVERAGED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
model = nn.Linear(2, 1)
average = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(torch.randn(12, 2), batch_size=4):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
    average.update_parameters(model)
torch.save({"model": model.state_dict(), "average": average.state_dict()}, "both.pt")
"""


def test_a_state_that_its_own_script_does_not_load_either_is_no_difference(warm: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(AVERAGED)
    comparison = compared(warm, Job(tmp_path, "train.py"), Job(tmp_path, "train.py"), processes=1)
    assert comparison.verdict == SAME, comparison
    assert comparison.loaded == 2  # the model, into either
