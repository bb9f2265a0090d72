"""The default collate function makes of file names a tuple: it is gathered as one name for each sample."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from accel_runtime import Accelerator

from .ranks import run_ranks


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("split", [False, True])
def test_a_tuple_of_names_is_gathered_name_by_name(n, split):
    def body():
        accelerator = Accelerator(split_batches=split)
        loader = accelerator.prepare(DataLoader([(i, f"s{i}") for i in range(14)], batch_size=6))
        alone, beside = [], []
        for numbers, names in loader:
            alone += accelerator.gather_for_metrics(tuple(names))
            together, named = accelerator.gather_for_metrics((numbers, tuple(names)))
            beside += [(int(i), name) for i, name in zip(together, named, strict=True)]
        return alone, beside

    for alone, beside in run_ranks(body, n):
        assert sorted(alone, key=lambda name: int(name[1:])) == [f"s{i}" for i in range(14)]
        assert all(name == f"s{i}" for i, name in beside)
        assert len(beside) == 14


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_list_of_dicts_is_gathered_entry_by_entry(n):
    def body():
        accelerator = Accelerator(split_batches=True)
        loader = accelerator.prepare(DataLoader([(i, f"s{i}") for i in range(13)], batch_size=6))
        each, kept = [], []
        for numbers, _ in loader:
            records = [{"id": number, "boxes": torch.arange(int(number) % 4)} for number in numbers]
            each += accelerator.gather_for_metrics(records, use_gather_object=True)
            kept += records
        after = accelerator.gather_for_metrics(kept, use_gather_object=True) if n > 1 else kept
        return [int(r["id"]) for r in each], [len(r["boxes"]) for r in each], len(after)

    for ids, lengths, after in run_ranks(body, n):
        assert ids == list(range(13))
        assert lengths == [i % 4 for i in range(13)]
        assert after >= 13
