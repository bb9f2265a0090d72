"""Processes that wait for each other in different calls stop, and say where each of them is."""

from __future__ import annotations

import sys
import time

import pytest
from torch import nn

from accel_runtime.watching import _place

from .ranks import RanksFailed
from .training import accelerated, mlp

QUICKLY = {"ACCELERATE_HANG_SECONDS": "0.3"}


def train(trainer, call):
    model = trainer.prepare(mlp())
    for _ in range(2):
        loss = model(next(model.parameters()).new_ones(2, 6)).square().mean()
        if trainer.is_main_process:
            call(trainer, loss)
        trainer.backward(loss)
    return {}


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda trainer, loss: trainer.wait_for_everyone(), "wait_for_everyone()"),
        (lambda trainer, loss: trainer.gather(loss), "gather()"),
        (lambda trainer, loss: nn.Linear(1, 1) and trainer.global_mean(loss), "global_mean()"),
    ],
)  # fmt: skip
def test_one_process_waits_and_the_others_train(call, name, capfd):
    with pytest.raises(RanksFailed) as failed:
        accelerated(lambda trainer: train(trainer, call), 2, env=QUICKLY)
    assert list(failed.value.errors) == [0, 1]
    said = capfd.readouterr().err
    assert "the processes wait for each other: process 0 in " + name in said
    assert said.count("test_watching.py:") == 4 and "process 1 in backward() at " in said


def test_a_process_that_computes_keeps_the_others_waiting():
    def program(trainer):
        for _ in range(2):
            if trainer.is_main_process:
                time.sleep(1.2)
            trainer.wait_for_everyone()
        return {}

    assert len(accelerated(program, 2, env=QUICKLY)) == 2


def test_calls_without_a_name_are_in_words():
    said = []
    layer = nn.Identity()
    layer.register_forward_hook(lambda *unused: said.append(_place(sys._getframe(1))["call"]))
    layer(0)
    assert said == ["the model's forward"]


def test_the_time_is_a_number():
    with pytest.raises(RanksFailed, match="ACCELERATE_HANG_SECONDS is 'soon': it must be a number of seconds"):
        accelerated(lambda trainer: {}, 2, env={"ACCELERATE_HANG_SECONDS": "soon"})
