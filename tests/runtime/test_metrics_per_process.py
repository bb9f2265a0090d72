"""`gather_for_metrics` in per-process mode: every sample of the data set once, whatever the loader."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler

from accel_runtime import Accelerator, DataLoaderConfiguration

from .ranks import run_ranks


class Stream(IterableDataset):
    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        return iter(range(worker.id if worker else 0, 13, worker.num_workers if worker else 1))


LOADERS = {
    "map": lambda: DataLoader(range(13), batch_size=2),
    "subset": lambda: DataLoader(range(99), batch_size=2, sampler=SubsetRandomSampler(list(range(13)))),
    "stream": lambda: DataLoader(Stream(), batch_size=2),
    "stream with workers": lambda: DataLoader(Stream(), batch_size=2, num_workers=2),
}


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("dispatch", [None, True, False])
@pytest.mark.parametrize("kind", LOADERS)
def test_every_sample_once(kind, dispatch, n):
    def body():
        accelerator = Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatch))
        loader = accelerator.prepare(LOADERS[kind]())
        tensors, objects = [], []
        for batch in loader:
            tensors += accelerator.gather_for_metrics(batch).tolist()
            objects += accelerator.gather_for_metrics([f"s{int(x)}" for x in batch])
        return tensors, objects

    for tensors, objects in run_ranks(body, n):
        assert sorted(tensors) == list(range(13))
        assert objects == [f"s{x}" for x in tensors]
