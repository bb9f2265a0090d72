"""Batches made by hand train like those of a loader: the numbers of one process on any number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader

from accel_runtime.data.by_hand import count_rows, cut_rows

from .ranks import RanksFailed, run_ranks
from .test_exact_training import assert_same_training
from .training import data, mlp, weights

SIZES = {"even": [12, 12], "uneven": [7, 7, 7], "a smaller one last": [8, 8, 3], "fewer rows than processes": [5, 2, 1]}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_trains_as_one_process(sizes: list[int]) -> None:
    def program(trainer: Any) -> dict[str, Any]:
        x, y = data(40)[:]
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer = trainer.prepare(model, optimizer)
        losses, rows = [], []
        for _ in range(2):
            for size in sizes:
                index = trainer.shard_batch(torch.randint(0, 40, (size,)))
                loss = F.mse_loss(model(x[index]), y[index])
                optimizer.zero_grad()
                trainer.backward(loss)
                optimizer.step()
                losses.append(trainer.global_mean(loss).item())
                rows.append((trainer.global_len(index), trainer.gather_for_metrics(index)))
        return {"losses": losses, "rows": rows, "weights": weights(model)}

    for n in (1, 2, 3):
        assert_same_training(program, n)


def test_a_loader_may_be_read_in_between() -> None:
    def program(trainer: Any) -> dict[str, Any]:
        model = mlp()
        model, loader = trainer.prepare(model, DataLoader(data(11), 4))
        figures = []
        for size in (6, 5):
            x, y = trainer.shard_batch(tuple(t[:size] for t in data(20)[:]))
            for xs, ys in loader:
                figures.append(trainer.global_mean(F.mse_loss(model(xs), ys)).item())
            figures.append(trainer.global_mean(F.mse_loss(model(x), y)).item())
        return {"figures": figures}

    assert_same_training(program, 2)


def test_the_batch_of_process_0_counts() -> None:
    def rows() -> list[int]:
        from accel_runtime import Accelerator

        accelerator = Accelerator(cpu=True, split_batches=True)
        own = torch.arange(5) + 100 * accelerator.process_index
        return accelerator.gather_for_metrics(accelerator.shard_batch({"ids": own})["ids"]).tolist()

    assert run_ranks(rows, 2) == [[0, 1, 2, 3, 4]] * 2


def test_samples_in_a_list_are_cut() -> None:
    def part() -> list[str]:
        from accel_runtime import Accelerator

        return Accelerator(cpu=True, split_batches=True).shard_batch(["a", "b", "c"])

    assert run_ranks(part, 2) == [["a", "b"], ["c"]]


def test_nothing_to_cut_is_an_error_on_all_processes() -> None:
    def fail() -> None:
        from accel_runtime import Accelerator

        Accelerator(cpu=True, split_batches=True).shard_batch(3.0)

    with pytest.raises(RanksFailed) as failed:
        run_ranks(fail, 2)
    assert all("shard_batch got float without rows" in error for error in failed.value.errors.values())




ROWS = {
    "an array": (np.arange(6).reshape(3, 2), [2, 1]),
    "lists of equal length": ([[1, 2, 3, 4], [5, 6, 7, 8], [9, 9, 9, 9]], [2, 1]),
    "tensors of samples": ([torch.zeros(4), torch.zeros(4), torch.zeros(4)], [2, 1]),
    "fields": ((torch.zeros(3, 4), ["a", "b", "c"], 7), [2, 1]),
    "a tuple of samples": (("a", "b", "c"), [2, 1]),
}


@pytest.mark.parametrize(("batch", "shares"), ROWS.values(), ids=ROWS)
def test_lists_hold_samples_and_tuples_fields(batch: Any, shares: list[int]) -> None:
    cuts = [cut_rows(batch, 0, 2, count_rows(batch) or 0), cut_rows(batch, 2, 3, count_rows(batch) or 0)]
    assert [count_rows(cut) for cut in cuts] == shares


def test_a_state_is_cut_along_its_own_dimension() -> None:
    def parts() -> Any:
        from accel_runtime import Accelerator

        accelerator = Accelerator(cpu=True, split_batches=True)
        state = tuple(torch.arange(10.0).view(2, 5, 1) + k for k in range(2))
        hidden, cell = accelerator.shard_batch(state, dim=1)
        return hidden[:, :, 0].tolist(), tuple(cell.shape)

    assert run_ranks(parts, 2) == [([[0, 1, 2], [5, 6, 7]], (2, 3, 1)), ([[3, 4], [8, 9]], (2, 2, 1))]


def test_batches_cut_of_one_tensor_are_told_apart() -> None:
    def program(trainer: Any) -> dict[str, Any]:
        x, y = data(20)[:]
        model = mlp()
        model = trainer.prepare(model)
        kept, losses = [], []
        for start, stop in ((0, 13), (13, 20)):
            part, target = trainer.shard_batch((x[start:stop], y[start:stop]))
            kept.append(part)
            loss = F.mse_loss(model(part), target)
            trainer.backward(loss)
            losses.append(trainer.global_mean(loss).item())
        shared = x.untyped_storage().data_ptr() in {part.untyped_storage().data_ptr() for part in kept}
        return {"losses": losses, "shared": shared and trainer.num_processes > 1}

    for n in (1, 2, 3):
        assert_same_training(program, n)
