"""Smaller batches after running out of memory."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from accel_runtime.memory import find_executable_batch_size, release_memory


def test_the_batch_shrinks_until_it_fits_and_stays():
    tried, refs = [], []

    @find_executable_batch_size(starting_batch_size=100)
    def train(batch_size, word):
        assert all(ref() is None for ref in refs), "the failed attempt's tensors are still alive"
        activations = torch.zeros(3)
        refs.append(weakref.ref(activations))
        tried.append(batch_size)
        if batch_size > 80:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate")
        return word

    assert train("done") == "done" and tried == [100, 90, 81, 72]
    train("again")
    assert tried[-1] == 72


def test_the_next_size_can_be_chosen():
    sizes = iter([3, 1])

    @find_executable_batch_size(starting_batch_size=7, reduce_batch_size_fn=lambda: next(sizes))
    def train(batch_size):
        if batch_size > 1:
            raise RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory")
        return batch_size

    assert train() == 1


def test_errors():
    def always(batch_size):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="No executable batch size found"):
        find_executable_batch_size(always, starting_batch_size=4)()
    with pytest.raises(TypeError, match="Batch size was passed into `always`"):
        find_executable_batch_size(always)(128)

    def broken(batch_size):
        raise ValueError("another error")

    with pytest.raises(ValueError, match="another error"):
        find_executable_batch_size(broken)()


def test_release_memory_returns_nones():
    tensor = torch.zeros(1)
    ref = weakref.ref(tensor)
    tensor, other = release_memory(tensor, 3)
    gc.collect()
    assert tensor is None and other is None and ref() is None
