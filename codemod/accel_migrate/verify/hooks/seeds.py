"""The same random numbers in every run, also where the script sets no seed."""

from __future__ import annotations

import contextlib
import random


def make_deterministic(seed: int) -> None:
    """Seed Python's, NumPy's and torch's streams and ask torch for deterministic algorithms, where it has some."""
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed)
        _seed_new_generators(numpy, seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it costs time at every allocation
    torch.backends.cudnn.benchmark = False


def _seed_new_generators(numpy: object, seed: int) -> None:
    """`default_rng()` without a seed takes one from the operating system."""
    generators = numpy.random  # type: ignore[attr-defined]
    plain = generators.default_rng
    generators.default_rng = lambda given=None: plain(seed if given is None else given)
