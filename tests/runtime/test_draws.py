"""Random numbers for the rows of a batch are those which one process would have drawn."""

from __future__ import annotations

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
