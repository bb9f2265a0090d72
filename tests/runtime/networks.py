"""A small transformer, a small convolutional net, and data for both.

They have no parameter whose true gradient is zero (biases of keys, biases before BatchNorm): Adam lets these wander by rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from .training import seed


class Block(nn.Module):
    """Attention and MLP, as language models have them."""

    def __init__(self, width: int = 16, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(width, width, bias=name != "k") for name in "qkvo"
        )
        self.up_proj, self.down_proj = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        q, k, v = (
            p(h).unflatten(-1, (-1, h.shape[-1] // self.heads)).transpose(1, 2)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(attended.transpose(1, 2).flatten(2))
        return x + self.down_proj(F.gelu(self.up_proj(self.norm2(x))))


class Transformer(nn.Module):
    """A language model whose output weights are its embedding's."""

    def __init__(self, words: int = 11, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.randn(1, 8, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position[:, : tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) * self.scale


def convolutional() -> nn.Module:
    """Two convolutions with BatchNorm and a classifier."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Flatten(), nn.Linear(8 * 16, 5),
    )  # fmt: skip


def sentences(n: int = 13, words: int = 11) -> TensorDataset:
    """Token sequences which count up, from a random start."""
    start = torch.randint(0, words, (n, 1), generator=torch.Generator().manual_seed(5))
    tokens = (start + torch.arange(9)) % words
    return TensorDataset(tokens[:, :8], tokens[:, 1:])


def images(n: int = 13) -> TensorDataset:
    generator = torch.Generator().manual_seed(6)
    return TensorDataset(torch.randn(n, 3, 8, 8, generator=generator), torch.randint(0, 5, (n,), generator=generator))


def fit_network(
    trainer: Any, model: nn.Module, dataset: TensorDataset, optimizer: Any = None, epochs: int = 2
) -> dict[str, Any]:
    """Train by AdamW with clipping, the last batch uneven; losses, gradient norms, weights."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=3e-3)
    seed()
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(dataset, 4, shuffle=True))
    losses, norms = [], []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            with trainer.autocast():
                loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
            trainer.backward(loss)
            norms.append(trainer.clip_grad_norm_(model.parameters(), 1.0).item())
            optimizer.step()
            losses.append(trainer.global_mean(loss).item())
    return {"losses": losses, "norms": norms, "weights": whole(trainer, model)}


def whole(trainer: Any, target: Any) -> dict[str, Any]:
    """The state of a model or an optimizer in torch's plain format."""
    state = trainer.get_state_dict(target) if hasattr(trainer, "get_state_dict") else target.state_dict()
    return {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in state.items()}
