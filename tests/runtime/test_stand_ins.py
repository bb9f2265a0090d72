"""DummyOptim and DummyScheduler are what the DeepSpeed configuration describes; several plugins are chosen by name."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from accel_runtime import Accelerator, DeepSpeedPlugin
from accel_runtime.deepspeed_stand_ins import Warmup, realized
from accel_runtime.state import AcceleratorState
from accel_runtime.utils import DummyOptim, DummyScheduler

from .training import accelerated, mlp

needs_deepspeed = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs deepspeed")
AUTO = {
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto", "betas": [0.8, 0.99]}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
}


@pytest.fixture(autouse=True)
def forgotten():
    yield
    AcceleratorState._reset_state(True)


def made(config, **settings):
    stand_in = DummyOptim(mlp().parameters(), lr=0.5, weight_decay=0.25)
    return realized((stand_in, DummyScheduler(stand_in, **settings), "other"), DeepSpeedPlugin(hf_ds_config=config))


def test_autos_are_those_of_the_script():
    optimizer, scheduler, other = made(AUTO, total_num_steps=12, warmup_num_steps=4)
    assert type(optimizer) is torch.optim.AdamW and scheduler.optimizer is optimizer and other == "other"
    assert {k: optimizer.defaults[k] for k in ("lr", "weight_decay", "betas")} == {"lr": 0.5, "weight_decay": 0.25, "betas": (0.8, 0.99)}
    assert (scheduler.lowest, scheduler.highest, scheduler.warmup, scheduler.total) == (0.0, 0.5, 4, 12)


@pytest.mark.parametrize(
    ("section", "kind"),
    [({"type": "Adam", "params": {"adam_w_mode": False}}, "Adam"), ({"type": "Adam"}, "AdamW"), ({"type": "SGD", "params": {"momentum": 0.9}}, "SGD")],
)
def test_kinds_of_optimizers(section, kind):
    optimizer, *_ = made({**AUTO, "optimizer": section}, total_num_steps=1)
    assert type(optimizer).__name__ == kind


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": {"type": "Lamb"}}, "optimizer.type of the DeepSpeed configuration is 'Lamb'"),
        ({"optimizer": None}, "DummyOptim stands for the optimizer of the DeepSpeed configuration, and the DeepSpeed configuration has no 'optimizer'"),
        ({"scheduler": {"type": "OneCycle"}}, "scheduler.type of the DeepSpeed configuration is 'OneCycle'"),
        ({}, "DummyScheduler\\(optimizer, total_num_steps=...\\) says it"),
    ],
)
def test_what_is_not_described(change, message):
    with pytest.raises(ValueError, match=message):
        made({**AUTO, **change})
    with pytest.raises(ValueError, match="there is no DeepSpeed configuration"):
        Accelerator(cpu=True).prepare(DummyOptim(mlp().parameters()))


def rates(total, logarithmic, steps=14):
    optimizer = torch.optim.SGD(mlp().parameters(), lr=0.1)
    scheduler = Warmup(optimizer, 0.01, 0.1, 4, total, logarithmic)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_rates():
    assert rates(None, False)[:7] == pytest.approx([0.01, 0.01, 0.0325, 0.055, 0.0775, 0.1, 0.1])
    assert rates(10, False)[5:13] == pytest.approx([0.1, 0.085, 0.07, 0.055, 0.04, 0.025, 0.01, 0.01])
    assert rates(None, True)[1:4] == pytest.approx([0.01, 0.055, 0.01 + 0.09 * 0.7924812])


@needs_deepspeed
@pytest.mark.parametrize("kind", ["log", "linear"])
def test_rates_are_deepspeeds(kind):
    from deepspeed.runtime.lr_schedules import WarmupDecayLR

    optimizer = torch.optim.SGD(mlp().parameters(), lr=0.1)
    theirs = WarmupDecayLR(optimizer, 10, 0.01, 0.1, 4, kind)
    found = []
    for _ in range(14):
        found.append(optimizer.param_groups[0]["lr"])
        theirs.step()
    assert rates(10, kind == "log") == pytest.approx(found)


@needs_deepspeed
def test_a_scheduler_of_the_configuration_ticks_once_on_two_processes():
    def program(trainer):
        model = mlp()
        optimizer = DummyOptim(model.parameters(), lr=0.1)
        scheduler = DummyScheduler(optimizer, total_num_steps=8, warmup_num_steps=2)
        model, optimizer, scheduler = trainer.prepare(model, optimizer, scheduler)
        for _ in range(3):
            trainer.backward(model(torch.ones(2, 6)).mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        return {"ticks": scheduler.last_epoch, "rate": scheduler.get_last_lr()[0]}

    for got in accelerated(program, 2, split_batches=False, deepspeed_plugin=AUTO):
        assert got["ticks"] == 3 and got["rate"] == pytest.approx(0.1)


@needs_deepspeed
def test_several_plugins_are_chosen_by_name():
    first, second = DeepSpeedPlugin(zero_stage=2), DeepSpeedPlugin(zero_stage=3)
    state = Accelerator(cpu=True, deepspeed_plugins={"student": first, "teacher": second}).state
    assert state.deepspeed_plugin is first and first.selected and not second.selected
    state.select_deepspeed_plugin("teacher")
    assert state.deepspeed_plugin is second and second.selected and state.get_deepspeed_plugin("student") is first
    with pytest.raises(ValueError, match="there is no DeepSpeed plugin 'judge': deepspeed_plugins has 'student', 'teacher'"):
        state.select_deepspeed_plugin("judge")

    def program(trainer):
        found = {}
        for name in ("teacher", "student"):
            trainer.state.select_deepspeed_plugin(name)
            model = mlp()
            trainer.prepare(model, torch.optim.AdamW(model.parameters()))
            found[name] = trainer.strategy.engines[-1].engine.zero_optimization_stage()
        return found

    plugins = {"student": DeepSpeedPlugin(zero_stage=1), "teacher": DeepSpeedPlugin(zero_stage=2)}
    assert accelerated(program, 2, deepspeed_plugin=plugins)[0] | {"streams": 0} == {"teacher": 2, "student": 1, "streams": 0}


def test_plugins_that_are_none():
    with pytest.raises(ValueError, match="deepspeed_plugins has dict for 'b': each must be a DeepSpeedPlugin"):
        Accelerator(cpu=True, deepspeed_plugin={"a": DeepSpeedPlugin(), "b": {"zero_stage": 1}})
