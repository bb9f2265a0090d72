"""Does every strategy train as one process does, in every precision? The largest difference of a loss, and what is allowed, and why.

    python benchmarks/strategies.py [--processes 2,4] [--precision no,bf16,fp16,fp8]

A small transformer (tied weights, a scalar parameter, attention) and a small convolutional net (BatchNorm) train for eight steps of AdamW with clipping,
the last batch of each epoch uneven, on the CPU. Each row compares with one process in the same precision; `one process` rows compare with full precision.
The CPU stands in for a device with fp16. fp8 needs torchao, the rows of DeepSpeed need deepspeed; what a strategy cannot run says so.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from timing import ROOT, table

sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "runtime")]

ALLOWED = {
    "no": (1e-5, "sums in another order round by 1e-7, and AdamW carries that on"),
    "bf16": (2e-2, "each operation rounds by 4e-3, in sums over processes elsewhere"),
    "fp16": (5e-3, "each operation rounds by 5e-4, in sums over processes elsewhere"),
    "fp8": (2e-2, "float8 rounds alike on all processes; bfloat16 around it does not"),
}
"""Precision -> the largest relative difference to one process in the same precision, and where it comes from."""
FROM_FULL = {"bf16": 3e-2, "fp16": 2e-2, "fp8": 5e-2}
"""Precision -> the largest relative difference of one process to full precision."""


def networks() -> dict[str, Callable[[Any], dict[str, Any]]]:
    import torch
    from torch import nn

    from runtime.networks import Transformer, convolutional, fit_network, images, sentences

    def transformer(trainer: Any) -> dict[str, Any]:
        torch.manual_seed(3)
        model = Transformer()
        model.scale = nn.Parameter(torch.ones(1))  # DeepSpeed's stage 3 refuses one without dimensions
        return fit_network(trainer, model, sentences())

    def conv(trainer: Any) -> dict[str, Any]:
        torch.manual_seed(3)
        return fit_network(trainer, convolutional(), images())

    return {"transformer": transformer, "conv net": conv}


def strategies(processes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names, and settings of an Accelerator."""
    import importlib.util

    from accel_runtime import FullyShardedDataParallelPlugin, ParallelismConfig

    yield "data parallel", {}
    yield "FSDP, fully sharded", {"fsdp_plugin": FullyShardedDataParallelPlugin()}
    yield (
        "FSDP, weights kept for backward",
        {"fsdp_plugin": FullyShardedDataParallelPlugin(sharding_strategy="SHARD_GRAD_OP")},
    )
    if processes % 2 == 0 and processes > 2:
        half = processes // 2
        yield "FSDP, two copies", {"parallelism_config": ParallelismConfig(dp_replicate_size=2, dp_shard_size=half)}
        yield (
            "tensor parallel, groups of 2, sharded",
            {"parallelism_config": ParallelismConfig(tp_size=2, dp_shard_size=half)},
        )
        yield (
            "tensor parallel, groups of 2, copies",
            {"parallelism_config": ParallelismConfig(tp_size=2, dp_replicate_size=half)},
        )
    elif processes == 2:
        yield "tensor parallel", {"parallelism_config": ParallelismConfig(tp_size=2)}
    if importlib.util.find_spec("deepspeed") is not None:
        yield from ((f"DeepSpeed, ZeRO {stage}", {"deepspeed_plugin": {"zero_stage": stage}}) for stage in (1, 2, 3))


def largest(got: list[float], expected: list[float]) -> float:
    """Relative difference of losses; NaN counts."""
    return max(
        (abs(a - b) / abs(b) for a, b in zip(got, expected, strict=True)), key=lambda value: (value != value, value)
    )


def rows(
    name: str, program: Callable[[Any], dict[str, Any]], precision: str, counts: list[int]
) -> Iterator[tuple[str, ...]]:
    from accel_runtime import GradScalerKwargs
    from runtime.ranks import RanksFailed
    from runtime.training import accelerated, plain

    scaler = [GradScalerKwargs(init_scale=1024.0)] if precision == "fp16" else []
    run = functools.partial(accelerated, program, mixed_precision=precision, kwargs_handlers=scaler)
    full, one = plain(program)["losses"], run(1)[0]["losses"]
    yield _row(
        name, "one process", 1, precision, largest(one, full), FROM_FULL.get(precision, 0.0), "against full precision"
    )
    for count in counts:
        for strategy, settings in strategies(count):
            try:
                found = max(largest(rank["losses"], one) for rank in run(count, **settings))
                yield _row(name, strategy, count, precision, found, *ALLOWED[precision])
            except RanksFailed as failed:
                yield name, strategy, str(count), precision, "-", "-", "", _said(failed)


def _row(
    name: str, strategy: str, count: int, precision: str, found: float, allowed: float, why: str
) -> tuple[str, ...]:
    return (
        name,
        strategy,
        str(count),
        precision,
        f"{found:.1e}",
        f"{allowed:.0e}",
        "ok" if found <= allowed else "DIFFERS",
        why,
    )


def _said(failed: Any) -> str:
    lines = [line for line in failed.errors[min(failed.errors)].splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Error" in line.partition(":")[0]), lines[-1]).strip()[:150]


def main() -> int:
    parser = argparse.ArgumentParser(description="Every strategy and precision against one process.")
    parser.add_argument("--processes", type=lambda text: [int(part) for part in text.split(",")], default=[2, 4])
    parser.add_argument("--precision", type=lambda text: text.split(","), default=list(ALLOWED))
    options = parser.parse_args()
    from accel_runtime import fp8

    os.environ["ACCELERATE_FP16_ON_CPU"] = "true"
    warnings.simplefilter("ignore")
    if "fp8" in options.precision:
        if fp8.is_available():
            fp8.import_torchao()  # once, and not in every process
        else:
            options.precision.remove("fp8")
            print("fp8 is left out: pip install torchao", file=sys.stderr)
    found = []
    for name, program in networks().items():
        for one in options.precision:
            for row in rows(name, program, one, options.processes):
                print(f"{' '.join(row[:4])}: {row[4]} {row[6]}", file=sys.stderr)
                found.append(row)
    print(
        "\n".join(
            table(("network", "strategy", "processes", "precision", "largest difference", "allowed", "", "why"), found)
        )
    )
    return 1 if any(row[6] == "DIFFERS" for row in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
