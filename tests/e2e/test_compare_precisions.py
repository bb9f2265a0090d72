"""`accel compare`: what is measured in each precision, and how it is shown."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from accel_migrate.command import compare_plot
from accel_migrate.command.compare import main
from accel_migrate.command.compare_table import table
from accel_migrate.compare.figures import printed_figures
from accel_migrate.compare.result import Comparison, Measured
from accel_migrate.compare.runs import compared
from accel_migrate.errors import UserError
from accel_migrate.verify.job import Job
from accel_migrate.verify.warm import ForkingRunner

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import Accelerator, GradScalerKwargs

accelerator = Accelerator(split_batches=True, kwargs_handlers=[GradScalerKwargs(init_scale=2.0**20)])
x = torch.randn(20, 8)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 4))
for epoch in range(3):
    for a, b in loader:
        with accelerator.autocast():
            loss = nn.functional.mse_loss(model(a), b)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(f"epoch {epoch} val accuracy: {0.5 + epoch / 10:.2f} took 0.3 s")
    accelerator.log({"eval/f1": torch.tensor(0.25)})
    accelerator.save(model.state_dict(), "model.pt")
"""
HARD = """\
import torch
from accel_runtime import Accelerator

accelerator = Accelerator(mixed_precision="bf16", split_batches=True)
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(3):
    accelerator.backward(model(torch.ones(4, 4)).square().mean())
    optimizer.step()
"""
PLAIN = "import torch\n\nmodel = torch.nn.Linear(1, 1)\nmodel(torch.ones(1, 1)).sum().backward()\n"


def run(runner: ForkingRunner, folder: Path, text: str, precisions: tuple[str, ...], processes: int = 1, steps: int = 0) -> Comparison:
    (folder / "train.py").write_text(text)
    return compared(Job(folder, "train.py"), precisions, processes, steps, 4, True, 60, runner, lambda what: None)


def test_steps_losses_and_figures_of_each_precision(runner: ForkingRunner, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("mine")
    (one,) = run(runner, tmp_path, TRAIN, ("no",)).runs
    full, low = run(runner, tmp_path, TRAIN, ("no", "bf16"), processes=2, steps=12).runs
    assert (one.steps, one.stopped, one.device, one.error) == (15, False, "cpu", "")
    assert (full.steps, full.stopped, full.notes) == (12, True, [])
    assert full.losses == pytest.approx(one.losses[:12], rel=1e-5)
    assert full.losses != low.losses == pytest.approx(full.losses, rel=0.1)
    assert one.metrics == {"val accuracy": 0.7, "eval/f1": 0.25} and full.metrics["val accuracy"] == 0.6
    for measured in (one, full, low):
        assert measured.samples_per_second == pytest.approx(4 * measured.steps_per_second, rel=1e-6)
        assert measured.peak_memory > 1 << 20
    assert (tmp_path / "model.pt").read_text() == "mine"


def test_steps_that_overflow_count_and_losses_are_unscaled(runner: ForkingRunner, tmp_path: Path) -> None:
    full, low = run(runner, tmp_path, TRAIN, ("no", "fp16"), steps=14).runs
    assert full.skipped == 0 and 3 <= low.skipped < 14 and low.steps == 14
    assert low.losses[0] == pytest.approx(full.losses[0], rel=1e-2)
    assert low.notes == ["computed on this CPU, for its losses: `accel launch` trains in full precision here"]


def test_a_precision_that_the_script_fixes_is_replaced_and_one_without_effect_is_named(runner: ForkingRunner, tmp_path: Path) -> None:
    full, low = run(runner, tmp_path, HARD, ("no", "bf16")).runs
    assert full.notes == ["the script says mixed_precision='bf16'; 'no' was put in its place"]
    assert low.notes == ["the loss is computed outside of accelerator.autocast(): the training is in full precision"]


def test_scripts_that_fail_or_are_not_accelerated(runner: ForkingRunner, tmp_path: Path) -> None:
    (failed,) = run(runner, tmp_path, HARD + "raise ValueError('bad data')\n", ("no",)).runs
    assert failed.error == "ValueError: bad data" and not failed.losses
    with pytest.raises(UserError, match=r"train.py makes no Accelerator.*migrate it first"):
        run(runner, tmp_path, PLAIN, ("no",))


@pytest.mark.parametrize(
    ("line", "figures"),
    [
        ("epoch 3/10 loss 0.52 accuracy 93.1%", {"loss": 0.52, "accuracy": 93.1}),
        ("Test set: Average loss: 0.0312, Accuracy: 9890/10000 (99%)", {"average loss": 0.0312, "accuracy": 9890.0}),
        ("{'eval_loss': 1.5, 'eval_f1': 0.5, 'lr': 0.1}", {"eval_loss": 1.5, "eval_f1": 0.5}),
        ("took 3.2 s, forward 12 ms, best=.5, ppl = inf", {"best": 0.5, "ppl": math.inf}),
    ],
)
def test_printed_figures(line: str, figures: dict[str, float]) -> None:
    assert printed_figures([line]) == figures


def sample() -> Comparison:
    runs = [
        Measured("no", steps=4, stopped=True, steps_per_second=10.0, samples_per_second=40.0, peak_memory=1 << 30, device="cuda", losses=[4.0, 3.0, 2.0, 1.0], metrics={"accuracy": 0.5}),
        Measured("bf16", steps=4, skipped=1, stopped=True, notes=["so it is"], steps_per_second=15.0, peak_memory=1 << 29, device="cuda", losses=[4.0, 3.0, math.nan, 1.5], metrics={"accuracy": 0.75}),
        Measured("fp8", error="ImportError: no"),
    ]
    return Comparison("train.py", 2, 4, 2, runs)


def test_the_table_shows_differences_to_the_first() -> None:
    title, heads, first, second, _, *rest = table(sample())
    assert title == "train.py: 4 optimizer steps on 2 processes (cuda); in brackets: against no"
    assert heads.split("  ")[0] == "precision" and heads.endswith("accuracy")
    assert first.split() == ["no", "10", "40", "1024", "MiB", "1", "1.5", "0.5"]
    assert second.split() == ["bf16", "15", "(1.50x)", "-", "512", "MiB", "(0.50x)", "1.5", "(+5.0e-01)", "nan", "(+nan)", "0.75", "(+2.5e-01)"]
    assert rest == [
        "no    █▆▃▁",
        "bf16  █▆?▂",
        "      loss, 1 to 4",
        "",
        "bf16: so it is",
        "bf16: 1 of 4 steps were skipped, since gradients overflowed",
        "fp8: not run: ImportError: no",
    ]


def test_drawings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare_plot.write(str(tmp_path / "a.svg"), sample())
    assert (tmp_path / "a.svg").read_text().count("<polyline") == 2
    monkeypatch.setattr(compare_plot.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"a.png needs matplotlib: install it with: pip install matplotlib, or give a name that ends in .svg"):
        compare_plot.check(str(tmp_path / "a.png"))


def test_a_png_by_matplotlib(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    compare_plot.check(str(tmp_path / "a.png"))
    compare_plot.write(str(tmp_path / "a.png"), sample())
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="the name has to end in one of"):
        compare_plot.check(str(tmp_path / "a.xyz"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "missing.py: there is no such file"),
        (["--precision", "fp4", __file__], "'fp4' is none of no, bf16, fp16, fp8"),
        (["--precision", "no,", __file__], "'' is none of"),
        (["--steps", "0", __file__], "0 is not an integer from 1 up"),
        (["--plot", "missing/a.svg", __file__], "--plot missing/a.svg: there is no such folder"),
        (["--python", "missing", __file__], "--python missing is no program"),
        ([__file__, "--epochs", "3"], "the script's own arguments follow after --"),
        ([], "the following arguments are required: SCRIPT"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
