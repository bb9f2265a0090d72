"""How a batch is shared out, what the learning rate does when it grows, and which strategy is the simplest that fits.

The sources of the learning rate rules stand in `RULES`. Memory is that of `memory.need`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..settings.offered import offered
from .memory import STRATEGIES, Job, Strategy, need
from .size import Size

SPARE = 0.9
"""Share of a device's memory that a training may fill: its context and fragmentation need the rest."""
_ASPECT, _HEAD, _VOCABULARY = 128, 128, 32_000
"""Width over depth of transformers, width of a head, and a vocabulary, as language models of 1 to 70 billion parameters have them."""
_SWITCHES = {
    "data parallel": "",
    "FSDP, weights kept for backward": "--use_fsdp --fsdp_reshard_after_forward false",
    "FSDP, fully sharded": "--use_fsdp",
    "ZeRO 1 (DeepSpeed)": "--use_deepspeed --zero_stage 1",
    "ZeRO 2 (DeepSpeed)": "--use_deepspeed --zero_stage 2",
    "ZeRO 3 (DeepSpeed)": "--use_deepspeed --zero_stage 3",
}
"""Strategy -> its options of `accel launch`, the simplest first. Tensor parallelism is a choice for within a machine, not made here."""


@dataclass(frozen=True)
class Split:
    """A global batch as `per_process` samples on each of `processes`, `accumulation` times for each optimizer step.

    Attributes:
        per_process: samples of the fullest process.
        even: whether all processes have as many.
    """

    per_process: int
    processes: int
    accumulation: int
    even: bool


@dataclass(frozen=True)
class Rule:
    """A learning rate for a batch `factor` times as large, and where the rule comes from."""

    name: str
    factor: float
    applies: str
    source: str


@dataclass(frozen=True)
class Choice:
    """The simplest way that fits.

    Attributes:
        options: of `accel launch`.
        gib: memory of each device that it takes, in GiB.
    """

    strategy: str
    split: Split
    checkpointing: bool
    options: str
    gib: float


def splits(batch: int, processes: int) -> list[Split]:
    """All ways in which every micro-batch has a sample for each process, without accumulation first."""
    return [
        Split(-(-(batch // steps) // processes), processes, steps, (batch // steps) % processes == 0)
        for steps in range(1, batch // processes + 1)
        if batch % steps == 0
    ]


def rules(factor: float, optimizer: str) -> list[Rule]:
    """What to do when the batch is `factor` times the one that the learning rate was found for; the recommended rule first."""
    linear = Rule("linear", factor, "SGD, with a warm-up over the first epochs", "Goyal et al. 2017, arXiv:1706.02677")
    root = Rule(
        "square root",
        math.sqrt(factor),
        f"Adam and kin{_betas(factor)}",
        "Malladi et al. 2022, arXiv:2205.10287",
    )
    same = Rule("unchanged", 1.0, "the same global batch, on however many processes", "accelerator: split_batches=True")
    if factor == 1.0:
        return [same]
    return [linear, root] if optimizer.startswith("sgd") else [root, linear]


def _betas(factor: float) -> str:
    """Adam's other constants, which the rule changes too."""
    scaled = [1 - factor * (1 - beta) for beta in (0.9, 0.999)]
    shown = [f"{beta:.4g}" if beta > 0 else "none: too large" for beta in scaled]
    return f"; betas 0.9, 0.999 -> {', '.join(shown)}, eps x {1 / math.sqrt(factor):.3g}"


def as_transformer(size: Size) -> Size:
    """`size` with blocks, where it is a number of parameters alone: `12 * layers * hidden**2` of them, and 128 times as wide as deep."""
    if size.layers:
        return size
    hidden = max(_HEAD, round((size.parameters * _ASPECT / 12) ** (1 / 3) / _HEAD) * _HEAD)
    layers = max(1, round(size.parameters / 12 / hidden**2))
    return dataclasses.replace(size, layers=layers, hidden=hidden, heads=hidden // _HEAD, vocabulary=_VOCABULARY)


def strategies() -> list[Strategy]:
    """Those among which `choose` chooses: what this runtime has, the simplest first."""
    by_name = {strategy.name: strategy for strategy in STRATEGIES}
    has = {name: offered("use_deepspeed") if "deepspeed" in options else True for name, options in _SWITCHES.items()}
    return [by_name[name] for name in _SWITCHES if has[name]]


def choose(job: Job, precision: str, memory: float) -> Choice | None:
    """The simplest strategy with the fewest micro-batches that fits into `memory` GiB; None if none does.

    Activations are computed again in backward only where nothing fits without; a job that asks for it has it throughout.
    """
    for checkpointing in dict.fromkeys((job.checkpointing, True)):
        for strategy, split in _ways(job, precision):
            micro = dataclasses.replace(job, batch=job.batch // split.accumulation, checkpointing=checkpointing)
            gib = need(micro, strategy, precision).total / (1 << 30)
            if gib <= SPARE * memory:
                return Choice(strategy.name, split, checkpointing, _options(strategy, split, precision), gib)
    return None


def sharing_sequences(job: Job, precision: str, memory: float) -> int | None:
    """The fewest processes which have to share a sequence (context parallel, fully sharded, activations computed again); None if that does not help."""
    fully = next(strategy for strategy in STRATEGIES if strategy.name == "FSDP, fully sharded")
    for size in range(2, job.devices + 1):
        if job.devices % size or not job.length or job.length % (2 * size):
            continue
        part = dataclasses.replace(job, batch=job.devices, length=job.length // size, checkpointing=True)
        keys_and_values = 2 * job.length * job.size.hidden * 4  # of one block, of the whole sequence
        if need(part, fully, precision).total + keys_and_values <= SPARE * memory * (1 << 30):
            return size
    return None


def _ways(job: Job, precision: str) -> Iterator[tuple[Strategy, Split]]:
    for strategy in strategies():
        if precision in strategy.precisions and (job.devices > 1 or strategy.buckets):
            for split in splits(job.batch, job.devices):
                yield strategy, split


def _options(strategy: Strategy, split: Split, precision: str) -> str:
    parts = [
        f"--num_processes {split.processes}",
        _SWITCHES[strategy.name],
        "--mixed_precision bf16" if precision == "mixed" else "",
        f"--gradient_accumulation_steps {split.accumulation}" if split.accumulation > 1 else "",
    ]
    return " ".join(filter(None, parts))
