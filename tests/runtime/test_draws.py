"""Random numbers for the rows of a batch are those which one process would have drawn."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Beta, Gamma, Normal, OneHotCategorical
from torch.utils.data import DataLoader

from .test_exact_training import assert_same_training
from .training import data

DRAWS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "in place": lambda draw, x: draw(torch.empty_like(x).normal_, 1.0, 2.0),
    "in place, exponential": lambda draw, x: draw(torch.empty_like(x).exponential_),
    "a method": lambda draw, x: draw(torch.sigmoid(x).bernoulli),
    "for rows and columns of probabilities": lambda draw, x: draw(torch.multinomial, torch.softmax(x, 1), 2),
    "around rows": lambda draw, x: draw(torch.normal, x, 0.1),
    "a distribution": lambda draw, x: draw(Normal(x, 1.0).rsample),
    "several samples of a distribution": lambda draw, x: draw(Normal(x, 1.0).sample, (3,)).movedim(0, 1),
    "a categorical distribution": lambda draw, x: draw(OneHotCategorical(logits=x).sample),
    "a rejection sampler": lambda draw, x: draw(Gamma(x.exp(), x.exp()).rsample),
    "a distribution of two rejection samplers": lambda draw, x: draw(Beta(x.exp(), x.exp() + 1).sample),
    "counts": lambda draw, x: draw(torch.poisson, x.exp() * 3),
    "with gradients": lambda draw, x: draw(F.gumbel_softmax, x.clone().requires_grad_()).detach(),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_draws_are_those_of_one_process(kind: str) -> None:
    def program(trainer: Any) -> dict[str, Any]:
        loader = trainer.prepare(DataLoader(data(11), 4))
        return {"drawn": [trainer.gather_for_metrics(DRAWS[kind](trainer.draw, x)) for x, _ in loader]}

    for n in (1, 2, 3):
        assert_same_training(program, n)


def test_a_draw_in_place_is_kept_in_the_tensor() -> None:
    def program(trainer: Any) -> dict[str, Any]:
        loader = trainer.prepare(DataLoader(data(11), 4))
        kept = []
        for x, _ in loader:
            noise = torch.empty_like(x)
            trainer.draw(noise.uniform_)
            kept.append(trainer.gather_for_metrics(noise))
        return {"drawn": kept}

    assert_same_training(program, 2)


def test_gradients_flow_through_a_sample() -> None:
    def program(trainer: Any) -> dict[str, Any]:
        loader = trainer.prepare(DataLoader(data(11), 4))
        slopes = []
        for x, _ in loader:
            x = x.clone().requires_grad_()
            trainer.draw(Normal(x, x.exp()).rsample).square().sum().backward()
            slopes.append(trainer.gather_for_metrics(x.grad))
        return {"slopes": slopes}

    assert_same_training(program, 3)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("kind", ["like", "by method", "by size", "a distribution"])
def test_draws_for_a_batch_replayed_by_cycle(kind: str, n: int) -> None:
    draws: dict[str, Callable[[Any, torch.Tensor], Any]] = {
        "like": lambda draw, u: draw(torch.randn_like, u),
        "by method": DRAWS["in place"],
        "by size": lambda draw, u: draw(torch.randn, u.size(0), 6),
        "a distribution": DRAWS["a distribution"],
    }

    def program(trainer: Any) -> dict[str, Any]:
        labelled, unlabelled = trainer.prepare(DataLoader(data(24), 4, shuffle=True), DataLoader(data(21, seed=2), 7, shuffle=True))
        drawn = []
        for _ in range(2):
            for (x, _), (u, _) in zip(labelled, itertools.cycle(unlabelled), strict=False):
                drawn += [trainer.gather_for_metrics(draws[kind](trainer.draw, rows)) for rows in (u * 2, x)]
        return {"drawn": drawn}

    assert_same_training(program, n)


def test_an_order_picks_partners_from_the_whole_batch() -> None:
    def program(trainer: Any) -> dict[str, Any]:
        loader = trainer.prepare(DataLoader(data(11), 4))
        mixed = []
        for x, _ in loader:
            order = trainer.draw(torch.randperm, len(x))
            mixed.append(trainer.gather_for_metrics(x + trainer.gather_for_metrics(x)[order]))
            mixed.append(trainer.gather_for_metrics(x + trainer.local_rows(trainer.gather_for_metrics(x).flip(0))))
        return {"mixed": mixed}

    for n in (1, 2, 3):
        assert_same_training(program, n)
