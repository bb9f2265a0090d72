"""Objects that write, of the common trackers: made, told and asked on the main process only."""

from __future__ import annotations

import textwrap

import pytest

from codemod.marked import STEP, script
from codemod.memory import after, migrated

MAIN = "if accelerator.is_main_process"


def _text(imports: str, before: str, in_step: str, behind: str = "") -> str:
    code = before + "\n" + STEP + textwrap.indent(in_step, "    ") + "\n" + behind
    return after(migrated(imports + "\n" + script(code)))


MADE = {
    "tensorboard_logger": ("import tensorboard_logger as tb", "log = tb.Logger(logdir='runs')", "log.log_value('loss', loss.item(), 1)"),
    "visdom": ("from visdom import Visdom", "log = Visdom()", "log.line(X=[1], Y=[loss.item()], update='append')"),
    "comet_ml": ("from comet_ml import Experiment", "log = Experiment()", "log.log_metric('loss', loss.item())"),
    "neptune": ("import neptune", "log = neptune.init_run()", "log['train/loss'].append(loss.item())"),
    "aim": ("import aim", "log = aim.Run()", "log.track(loss.item(), name='loss')"),
    "wandb": ("import wandb", "log = wandb.init(project='p')", "log.log({'loss': loss.item()})"),
    "clearml": ("from clearml import Task", "log = Task.init(project_name='p').get_logger()", "log.report_scalar('loss', 'train', loss.item(), 1)"),
}


@pytest.mark.parametrize("name", MADE)
def test_a_tracker_is_told_on_the_main_process(name: str) -> None:
    imports, made, told = MADE[name]
    text = _text(imports, made, told)
    assert f"{made.replace(chr(39), chr(39))} {MAIN} else None" in text
    assert f"    {MAIN}:\n        {told.replace('loss.item()', 'global_loss')}" in text


def test_functions_of_a_tracker_are_called_there_too() -> None:
    text = _text("from tensorboard_logger import configure, log_value", "configure('runs')", "log_value('loss', loss, 1)")
    assert f"{MAIN}:\n    configure('runs')" in text
    assert f"    {MAIN}:\n        log_value('loss', global_loss, 1)" in text


def test_what_a_tracker_answers_is_kept_there() -> None:
    text = _text("import visdom\nimport neptune", "viz = visdom.Visdom()\nrun = neptune.init_run()\nrun['lr'] = 0.1\nwindow = viz.line(X=[0], Y=[0])", "pass")
    assert f"window = viz.line(X=[0], Y=[0]) {MAIN} else None" in text
    assert f"{MAIN}:\n    run['lr'] = 0.1" in text


def test_settings_that_a_tracker_hands_back_are_those_of_all() -> None:
    text = _text("from clearml import Task", "task = Task.init()\nsettings = {'lr': 0.1}\nsettings = task.connect(settings)", "pass")
    assert f"settings = task.connect(settings) {MAIN} else settings" in text


def test_a_record_from_which_settings_are_read_is_only_switched_off() -> None:
    text = _text("import wandb", "wandb.init(config={'lr': 0.1})\nlr = wandb.config.lr", "wandb.log({'loss': loss.item()})")
    assert f"wandb.init(config={{'lr': 0.1}}, mode=None {MAIN} else \"disabled\")\nlr = wandb.config.lr" in text


def test_a_run_around_the_training_is_opened_by_the_main_process() -> None:
    code = "with mlflow.start_run():\n" + textwrap.indent(STEP, "    ")
    text = after(migrated("import mlflow\n" + script(code)))
    assert f"with mlflow.start_run() {MAIN} else contextlib.nullcontext():" in text
    assert "import contextlib" in text
