"""The same random numbers in every run, also where the script sets no seed."""

from __future__ import annotations

import contextlib
import random


def make_deterministic(seed: int) -> None:
    """Seed Python's, NumPy's and torch's streams and ask torch for deterministic algorithms, where it has some."""
    import torch

    torch.manual_seed(seed)
    _seed_others(seed)
    with contextlib.suppress(ImportError):
        import numpy

        _seed_new_generators(numpy, seed)
    _seed_together()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # it costs time at every allocation
    torch.backends.cudnn.benchmark = False


def _seed_together() -> None:
    """As long as a script has not touched Python's and NumPy's streams, `torch.manual_seed` seeds them too, as `set_seed` does.

    Otherwise a stream which the original leaves unseeded would begin elsewhere in a migrated script that seeds all.
    """
    import torch

    started = _fingerprints()
    plain = torch.manual_seed

    def manual_seed(seed: int) -> torch.Generator:
        if _fingerprints() == started:
            _seed_others(int(seed))
        return plain(seed)

    torch.manual_seed = manual_seed


def _fingerprints() -> tuple[object, bytes]:
    """The states of Python's and NumPy's streams."""
    try:
        import numpy
    except ImportError:
        return random.getstate(), b""
    return random.getstate(), numpy.random.get_state()[1].tobytes()  # type: ignore[index,union-attr]


def _seed_others(seed: int) -> None:
    random.seed(seed)
    with contextlib.suppress(ImportError):
        import numpy

        numpy.random.seed(seed % 2**32)


def _seed_new_generators(numpy: object, seed: int) -> None:
    """`default_rng()` without a seed takes one from the operating system."""
    generators = numpy.random  # type: ignore[attr-defined]
    plain = generators.default_rng
    generators.default_rng = lambda given=None: plain(seed if given is None else given)
