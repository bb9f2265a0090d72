"""Switch off what makes two right trainings differ, or a wrong one: each alone, to find the cause."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from accel_migrate.verify.hooks import precision, shuffling, state

SWITCHES = ("dropout", "batchnorm", "shuffle", "augmentation", "noise", "precision", "denominators")


def switch_off(names: Iterable[str]) -> None:
    """Patch torch in this process.

    | name | what happens instead |
    | --- | --- |
    | dropout | nothing is dropped |
    | batchnorm | layers use their running statistics, which stay as they are |
    | shuffle | samples come in the order of the data set; those drawn with weights are the same in every pass |
    | augmentation | what is drawn while a sample is read depends on its index alone |
    | noise | once batches are read, `torch.randn` and its kin draw the same row for every sample |
    | precision | autocast does nothing, and what is asked for in low precision is float32 |
    | denominators | means of losses over each process's part count by how many terms they are of |
    """
    off = set(names)
    for name in SWITCHES:
        if name in off:
            globals()[f"_no_{name}"]()
    _watch_reading(by_index="augmentation" in off)
    if "shuffle" not in off:
        shuffling.note_shuffling()
    if "precision" not in off:
        precision.note_autocast()


def _no_dropout() -> None:
    import torch

    functional = torch.nn.functional
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        setattr(functional, name, lambda input, *args, **kwargs: input)
    torch.dropout = lambda input, *args, **kwargs: input
    attention = functional.scaled_dot_product_attention

    def without(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *rest: Any, **more: Any) -> Any:
        return attention(query, key, value, attn_mask, 0.0, *rest, **more)

    functional.scaled_dot_product_attention = without
    plain = torch.nn.RNNBase.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self.dropout = 0.0

    torch.nn.RNNBase.__init__ = init  # type: ignore[method-assign]


def _no_batchnorm() -> None:
    from torch.nn.modules.batchnorm import _NormBase

    plain = _NormBase.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        self.training = False

    def train(self: Any, mode: bool = True) -> Any:
        return self

    _NormBase.__init__ = init  # type: ignore[method-assign]
    _NormBase.train = train  # type: ignore[method-assign]


def _no_shuffle() -> None:
    shuffling.switch_off_shuffling()


def _no_augmentation() -> None:
    """Done by `_watch_reading`, where samples are read."""


def _no_noise() -> None:
    import torch

    for name in ("randn", "rand", "randn_like", "rand_like", "randint", "randint_like", "normal", "bernoulli"):
        setattr(torch, name, _one_row(getattr(torch, name)))


def _one_row(plain: Any) -> Any:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        values = plain(*args, **kwargs)
        if not _reading.started or not values.numel() or not values.ndim:
            return values
        return _row(values, plain, args, kwargs).expand(values.shape).clone()

    return drawn


def _row(values: Any, plain: Any, args: Any, kwargs: Any) -> Any:
    """The same for every draw of this shape: whole numbers from the range that was asked for."""
    import torch

    seed = values[0].numel()
    if values.dtype.is_floating_point:
        return torch.rand(values.shape[1:], generator=torch.Generator().manual_seed(seed)).to(values.device, values.dtype)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        on_cpu = {name: "cpu" if name == "device" else value for name, value in kwargs.items() if name != "generator"}
        return plain(*args, **on_cpu)[0].to(values.device)


def _no_denominators() -> None:
    from accel_migrate.verify.hooks.denominators import share_denominators

    share_denominators()


def _no_precision() -> None:
    precision.raise_precision()


_WATCHED_BATCHES = 4


class _Reading:
    started = False
    batches = 0


_reading = _Reading()


def _watch_reading(by_index: bool) -> None:
    """Note whether reading a sample draws random numbers; `by_index` makes what it draws depend on its index alone."""
    import torch
    from torch.utils.data._utils.fetch import _MapDatasetFetcher

    plain = _MapDatasetFetcher.fetch
    _reading.started, _reading.batches = False, 0

    def fetch(self: Any, index: Any) -> Any:
        _reading.started = True
        if by_index:
            return _read_by_index(self, index)
        _reading.batches += 1
        if _reading.batches > _WATCHED_BATCHES:
            return plain(self, index)
        before, python = torch.get_rng_state(), random.getstate()
        data = plain(self, index)
        if random.getstate() != python or not torch.equal(torch.get_rng_state(), before):
            state.note_use("augmentation")
        return data

    _MapDatasetFetcher.fetch = fetch


def _read_by_index(fetcher: Any, index: Any) -> Any:
    streams = _streams()
    if not fetcher.auto_collation:
        _seed(index)
        data = fetcher.dataset[index]
    else:
        data = []
        for row in index:
            _seed(row)
            data.append(fetcher.dataset[row])
    _restore(streams)
    return fetcher.collate_fn(data)


def _seed(index: Any) -> None:
    import numpy
    import torch

    number = hash(str(index)) % 2**31
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def _streams() -> tuple[Any, Any, Any]:
    import numpy
    import torch

    return random.getstate(), numpy.random.get_state(), torch.get_rng_state()


def _restore(streams: tuple[Any, Any, Any]) -> None:
    import numpy
    import torch

    random.setstate(streams[0])
    numpy.random.set_state(streams[1])
    torch.set_rng_state(streams[2])
