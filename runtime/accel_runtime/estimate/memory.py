"""Bytes on each device, by strategy and precision.

Weights, gradients and optimizer states: 4 + 4 + 8 bytes for each parameter with AdamW in full precision, and how they are
sharded, as in "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (arXiv:1910.02054). Activations of a
transformer block: s*b*h*(34 + 5*a*s/h) bytes in 16 bit, 34*s*b*h where attention is not materialised, as in "Reducing
Activation Recomputation in Large Transformer Models" (arXiv:2205.05198). The context of the device (0.5 to 1 GiB),
fragmentation and other libraries come on top.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from .size import Size

OPTIMIZERS = {"adamw": 2.0, "adamw8bit": 0.5, "sgd-momentum": 1.0, "sgd": 0.0}
"""Optimizer -> its states, in values of four bytes for each parameter in full precision."""
PRECISIONS = ("fp32", "mixed", "bf16")
"""All in four bytes; the forward pass in two bytes, weights in four (autocast); all in two bytes."""


@dataclass(frozen=True)
class Strategy:
    """How a strategy spreads a training: 1 where every device holds the whole, else "n" devices share it.

    Attributes:
        name: as in the table.
        weights, gradients, optimizer: whether each is sharded.
        gathered: blocks whose full weights are held at a time, besides the shards; -1 is the whole model.
        batch: whether the batch is shared out among the devices; tensor parallel devices all see the whole of it.
        buckets: whether gradients are copied into buckets to be sent.
        halved: whether "mixed" keeps weights and gradients in two bytes, and weights in four with the optimizer's states.
    """

    name: str
    weights: bool = False
    gradients: bool = False
    optimizer: bool = False
    gathered: int = 0
    batch: bool = True
    buckets: bool = False
    halved: bool = False

    @property
    def precisions(self) -> tuple[str, ...]:
        """Those that it trains in."""
        return PRECISIONS[:2] if self.halved else PRECISIONS


STRATEGIES = (
    Strategy("data parallel", buckets=True),
    Strategy("ZeRO 1 (DeepSpeed)", optimizer=True, halved=True),
    Strategy("ZeRO 2 (DeepSpeed)", gradients=True, optimizer=True, halved=True),
    Strategy("ZeRO 3 (DeepSpeed)", weights=True, gradients=True, optimizer=True, gathered=2, halved=True),
    Strategy("FSDP, weights kept for backward", weights=True, gradients=True, optimizer=True, gathered=-1),
    Strategy("FSDP, fully sharded", weights=True, gradients=True, optimizer=True, gathered=2),
    Strategy("tensor parallel", weights=True, gradients=True, optimizer=True, batch=False),
)


@dataclass(frozen=True)
class Job:
    """What is trained: `batch` samples of `length` tokens in each step on all devices together.

    `checkpointing` computes activations again in backward; `attention` says that attention matrices are materialised.
    """

    size: Size
    devices: int = 1
    optimizer: str = "adamw"
    batch: int = 0
    length: int = 0
    checkpointing: bool = False
    attention: bool = False


@dataclass(frozen=True)
class Need:
    """Bytes on one device."""

    weights: float
    gradients: float
    optimizer: float
    gathered: float
    copies: float
    activations: float

    @property
    def total(self) -> float:
        return sum(getattr(self, part.name) for part in fields(self))


def need(job: Job, strategy: Strategy, precision: str) -> Need:
    """What one device needs.

    Args:
        job: what is trained.
        strategy: how it is spread over `job.devices`.
        precision: one of `PRECISIONS`.
    """
    count, n = job.size.parameters, job.devices
    computed = 4 if precision == "fp32" else 2
    halved = strategy.halved and precision == "mixed"
    stored = 2 if halved or precision == "bf16" else 4
    states = OPTIMIZERS[job.optimizer] * (2 if precision == "bf16" else 4) + (4 if halved else 0)

    def share(sharded: bool) -> int:
        return n if sharded else 1

    gathers = n > 1 and strategy.gathered != 0
    gathered = (
        (count if strategy.gathered < 0 else min(count, strategy.gathered * job.size.block)) * computed
        if gathers
        else 0
    )
    unsharded_gradients = (
        job.size.block * computed if gathers or (n > 1 and strategy.gradients and strategy.batch) else 0
    )
    # Autocast keeps a copy of each weight in two bytes until the backward pass; where weights are gathered, they are the copy.
    cast = count * 2 / share(strategy.weights) if precision == "mixed" and not gathers and not halved else 0
    buckets = count * stored if strategy.buckets and n > 1 else 0
    return Need(
        weights=count * stored / share(strategy.weights),
        gradients=count * stored / share(strategy.gradients),
        optimizer=count * states / share(strategy.optimizer),
        gathered=gathered + unsharded_gradients,
        copies=cast + buckets,
        activations=_activations(job, strategy, computed),
    )


def _activations(job: Job, strategy: Strategy, computed: int) -> float:
    size = job.size
    if not (size.layers and size.hidden and job.batch and job.length):
        return 0.0
    batch = -(-job.batch // job.devices) if strategy.batch else job.batch
    tokens = batch * job.length
    shared = job.devices if not strategy.batch else 1
    matrices = 5 * size.heads * job.length / size.hidden if job.attention else 0
    # Inputs of the norms and dropout are whole on every tensor parallel device: 10 of the 34.
    block = tokens * size.hidden * (10 + (24 + matrices) / shared) * computed / 2
    blocks = block + size.layers * tokens * size.hidden * computed if job.checkpointing else size.layers * block
    logits = (
        tokens * size.vocabulary * (computed + 8) / shared
    )  # as computed; in four bytes for the loss, and their gradient
    return blocks + logits
