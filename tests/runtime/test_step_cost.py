"""What a plain step on several processes communicates: one bucket of gradients, and nothing else."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader

from .training import accelerated, data, mlp


def collectives(body) -> Counter[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        body()
    return Counter(event.name for event in profile.events() if event.name.startswith("c10d::"))


@pytest.mark.parametrize("rows", [16, 13], ids=["even batches", "an uneven last batch"])
def test_a_step_is_one_all_reduce(rows):
    def program(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(rows), 4, shuffle=True))
        optimizer = trainer.prepare(torch.optim.AdamW(model.parameters()))

        def step(x, y):
            optimizer.zero_grad()
            trainer.backward(F.mse_loss(model(x), y))
            trainer.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            trainer.global_len(x)

        return {"counts": [collectives(partial(step, x, y)) for _ in range(2) for x, y in loader]}

    for got in accelerated(program, 2):
        assert got["counts"] == [{"c10d::allreduce_": 1}] * 8


def test_a_pass_over_the_data_shares_the_random_streams_once():
    def program(trainer):
        loader = trainer.prepare(DataLoader(data(13), 4, shuffle=True))
        return {"count": sum(collectives(lambda: list(loader)).values())}

    assert all(got["count"] <= 2 for got in accelerated(program, 2))
