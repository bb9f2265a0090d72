"""`accel plan`: how a global batch is shared out, the learning rate for it, the memory of each strategy, and which to take."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ..estimate.memory import OPTIMIZERS, PRECISIONS, Job, need
from ..estimate.planning import (
    Choice,
    Rule,
    Split,
    as_transformer,
    choose,
    rules,
    sharing_sequences,
    splits,
    strategies,
)
from ..estimate.size import of_count, of_model
from ..settings.errors import LaunchError
from ..settings.kinds import COUNT, POSITIVE
from . import shell

_PROGRAM = "accel plan"
_GIB = 1 << 30
_SHOWN = 8
"""Ways to share out a batch that are printed; --json has all."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0: there is a recommendation, 1: nothing fits, 2: wrong usage or a model that is not there."""
    return shell.guarded(_PROGRAM, lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """The parser of `accel plan`."""
    made = shell.Parser(
        prog=_PROGRAM,
        description="Share out a batch over processes: accumulation, learning rate, memory, and the simplest strategy that fits.",
    )
    count, positive = shell.reader(COUNT), shell.reader(POSITIVE)
    made.add_argument("model", nargs="?", help="as for accel estimate: FILE.py:CLASS, a folder, a Transformers type")
    made.add_argument("--params", metavar="N", help="a number of parameters instead of a model: 7e9, 7B, 350M")
    made.add_argument(
        "--batch",
        type=count,
        required=True,
        metavar="N",
        help="samples of an optimizer step, of all processes together",
    )
    made.add_argument(
        "--gpus",
        "--num_processes",
        type=count,
        default=8,
        metavar="N",
        help="processes, one for each device; default: 8",
    )
    made.add_argument(
        "--length",
        type=count,
        default=0,
        metavar="N",
        help="tokens of a sample: counts the activations of a transformer",
    )
    made.add_argument("--memory", type=positive, default=80.0, metavar="GIB", help="of a device; default: 80")
    made.add_argument("--precision", choices=PRECISIONS, default="mixed", help="default: mixed (bf16)")
    made.add_argument("--optimizer", choices=tuple(OPTIMIZERS), default="adamw", help="default: adamw")
    made.add_argument("--checkpointing", action="store_true", help="activations are computed again in backward")
    made.add_argument("--lr", type=positive, metavar="X", help="a learning rate that is known to be good")
    made.add_argument("--lr_batch", "--lr-batch", type=count, metavar="N", help="the batch for which it is")
    made.add_argument("--json", action="store_true", help="everything, for programs")
    return made


def _run(options: argparse.Namespace) -> int:
    job = _job(options)
    ways = splits(options.batch, options.gpus)
    advice = rules(options.batch / options.lr_batch, options.optimizer) if options.lr_batch else []
    choice = choose(job, options.precision, options.memory)
    if options.json:
        print(json.dumps(_facts(options, job, ways, advice, choice), indent=2))
    else:
        shell.needs("rich")
        _show(options, job, ways, advice, choice)
    return int(choice is None)


def _job(options: argparse.Namespace) -> Job:
    if options.model and options.params:
        raise LaunchError("give either a MODEL or --params N")
    if options.batch < options.gpus:
        raise LaunchError(
            f"--batch {options.batch} has no sample for each of --gpus {options.gpus}: a larger batch, or fewer processes"
        )
    if (options.lr is None) != (options.lr_batch is None):
        raise LaunchError(
            "--lr and --lr_batch go together: a rule scales a learning rate from the batch that it is good for"
        )
    if not (options.model or options.params):
        raise LaunchError("give a MODEL or --params N")
    size = of_model(options.model) if options.model else of_count(options.params)
    if options.length and options.params:
        size = as_transformer(size)
    if options.length and not size.layers:
        raise LaunchError(
            f"--length: the layers of {size.name} are not known; activations can be counted for Transformers models only"
        )
    return Job(size, options.gpus, options.optimizer, options.batch, options.length, options.checkpointing)


def _memory(options: argparse.Namespace, job: Job) -> dict[str, float]:
    """Strategy -> GiB on each device, for the whole batch without accumulation."""
    fitting = [strategy for strategy in strategies() if options.precision in strategy.precisions]
    return {strategy.name: need(job, strategy, options.precision).total / _GIB for strategy in fitting}


def _facts(
    options: argparse.Namespace, job: Job, ways: list[Split], advice: list[Rule], choice: Choice | None
) -> dict[str, Any]:
    return {
        "model": asdict(job.size),
        "batch": options.batch,
        "splits": [asdict(way) for way in ways],
        "learning_rates": [{**asdict(rule), "learning_rate": options.lr * rule.factor} for rule in advice],
        "gib": _memory(options, job),
        "recommended": choice and asdict(choice),
    }


def _show(options: argparse.Namespace, job: Job, ways: list[Split], advice: list[Rule], choice: Choice | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"A batch of {options.batch} on {options.gpus} processes:", highlight=False)
    batches = Table()
    for heading in ("per process", "processes", "accumulation"):
        batches.add_column(heading, justify="right")
    batches.add_column("")
    for way in ways[:_SHOWN]:
        note = "" if way.even else "uneven: some have one less"
        batches.add_row(str(way.per_process), str(way.processes), str(way.accumulation), note)
    console.print(batches)
    console.print(f"{_model(job)}, {_counted(options, job)}:", highlight=False, soft_wrap=True)
    memory = Table()
    memory.add_column("GiB per device, without accumulation")
    memory.add_column(options.precision, justify="right")
    for name, gib in _memory(options, job).items():
        memory.add_row(name, f"{gib:.1f}")
    console.print(memory)
    for rule in advice:
        rate = f"{options.lr * rule.factor:.3g}"
        console.print(
            f"learning rate {rate}  ({rule.name}: {rule.applies}; {rule.source})", soft_wrap=True, highlight=False
        )
    console.print("\n".join(_recommended(options, job, choice)), soft_wrap=True, highlight=False, markup=False)


def _model(job: Job) -> str:
    shape = f", as {job.size.layers} blocks of width {job.size.hidden}" if job.size.layers else ""
    return f"{job.size.parameters:,} parameters{shape}, {job.optimizer}"


def _counted(options: argparse.Namespace, job: Job) -> str:
    return (
        f"with the activations of {options.length} tokens a sample"
        if job.length
        else "without activations (--length counts them)"
    )


def _recommended(options: argparse.Namespace, job: Job, choice: Choice | None) -> list[str]:
    if choice is None:
        if size := sharing_sequences(job, options.precision, options.memory):
            shards = f" --parallelism_config_dp_shard_size {options.gpus // size}" if size < options.gpus else ""
            lower = " --mixed_precision bf16" if options.precision == "mixed" else ""
            return [
                f"nothing fits into {options.memory:g} GiB, unless {size} processes share each sequence (context parallel, with its lines in the script):",
                f"  accel launch --num_processes {options.gpus} --use_fsdp --fsdp_activation_checkpointing true --use_parallelism_config "
                f"--parallelism_config_cp_size {size}{shards}{lower} train.py",
            ]
        return [
            f"nothing fits into {options.memory:g} GiB: more devices, --checkpointing, adamw8bit, or tensor parallelism"
        ]
    split = choice.split
    whole = -(-options.batch // split.accumulation)
    shared = f"{split.per_process} per process x {split.processes} processes x {split.accumulation} accumulation = {options.batch}"
    again = "; activations are computed again in backward" if choice.checkpointing else ""
    unknown = "" if job.length else " and activations on top: if memory runs out, the next row of the first table"
    return [
        f"recommended: {choice.strategy}, {shared}; {choice.gib:.1f} of {options.memory:g} GiB{unknown}{again}",
        f"  accel launch {choice.options} train.py",
        f"  batch_size={whole} with Accelerator(split_batches=True), {split.per_process} with Accelerator()",
    ]


if __name__ == "__main__":
    sys.exit(main())
