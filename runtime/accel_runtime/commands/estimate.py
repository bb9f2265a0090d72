"""`accel estimate`: the memory that a training needs on each device, for each strategy and precision."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from ..estimate.memory import OPTIMIZERS, PRECISIONS, STRATEGIES, Job, Need, need
from ..estimate.size import Size, of_count, of_model
from ..settings.errors import LaunchError
from ..settings.kinds import COUNT, POSITIVE
from . import shell

_PROGRAM = "accel estimate"
_GIB = 1 << 30
_UNITS = {"GiB": _GIB, "MiB": 1 << 20, "KiB": 1 << 10}
_HEADINGS = {"fp32": "fp32", "mixed": "mixed (bf16, fp16)", "bf16": "all in bf16"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; 0, or 2 for wrong usage or a model that is not there."""
    return shell.guarded(_PROGRAM, lambda: _run(parser().parse_args(argv)))


def parser() -> argparse.ArgumentParser:
    """The parser of `accel estimate`."""
    made = shell.Parser(
        prog=_PROGRAM,
        description="Memory per device for each strategy and precision. Nothing is downloaded, no weights are made.",
    )
    made.add_argument(
        "model", nargs="?", help="FILE.py:CLASS, a folder with a config.json, or a Transformers type such as gpt2"
    )
    made.add_argument("--params", metavar="N", help="a number of parameters instead of a model: 7e9, 7B, 350M")
    made.add_argument(
        "--num_processes",
        "--num-processes",
        type=shell.reader(COUNT),
        default=8,
        metavar="N",
        help="devices; default: 8",
    )
    made.add_argument("--optimizer", choices=tuple(OPTIMIZERS), default="adamw", help="default: adamw")
    made.add_argument(
        "--batch",
        type=shell.reader(COUNT),
        default=0,
        metavar="N",
        help="samples of a step on all devices together: counts the activations of a transformer",
    )
    made.add_argument("--length", type=shell.reader(COUNT), default=0, metavar="N", help="tokens of a sample")
    made.add_argument("--checkpointing", action="store_true", help="activations are computed again in backward")
    made.add_argument(
        "--attention",
        action="store_true",
        help="attention matrices are materialised (no flash or memory-efficient attention)",
    )
    made.add_argument(
        "--memory", type=shell.reader(POSITIVE), metavar="GIB", help="memory of a device: marks what fits"
    )
    made.add_argument("--detail", action="store_true", help="what the memory consists of")
    made.add_argument("--json", action="store_true", help="all figures, in bytes")
    return made


def _run(options: argparse.Namespace) -> int:
    job = _job(options)
    needs = {
        strategy.name: {precision: need(job, strategy, precision) for precision in strategy.precisions}
        for strategy in STRATEGIES
    }
    if options.json:
        figures = {name: {p: {**asdict(n), "total": n.total} for p, n in row.items()} for name, row in needs.items()}
        print(json.dumps({"model": asdict(job.size), "devices": job.devices, "bytes": figures}, indent=2))
        return 0
    shell.needs("rich")
    _show(job, needs, options)
    return 0


def _job(options: argparse.Namespace) -> Job:
    if (options.model is None) == (options.params is None):
        raise LaunchError("give either a MODEL or --params N")
    if bool(options.batch) != bool(options.length):
        raise LaunchError("--batch and --length go together: activations depend on both")
    size = of_count(options.params) if options.params else of_model(options.model)
    if options.batch and not (size.layers and size.hidden):
        raise LaunchError(
            f"--batch: the layers of {size.name} are not known; activations can be counted for Transformers models only"
        )
    return Job(
        size,
        options.num_processes,
        options.optimizer,
        options.batch,
        options.length,
        options.checkpointing,
        options.attention,
    )


def _show(job: Job, needs: dict[str, dict[str, Need]], options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(
        title=_title(job.size, job), title_justify="left", caption=_caption(job, options.memory), caption_justify="left"
    )
    unit = _unit(needs)
    table.add_column(f"{unit} per device, {job.devices} devices")
    for precision in PRECISIONS:
        table.add_column(_HEADINGS[precision], justify="right")
    for name, row in needs.items():
        table.add_row(name, *(_cell(row[precision], options, unit) if precision in row else "-" for precision in PRECISIONS))
    console.print(table)


def _title(size: Size, job: Job) -> str:
    layers = f", {size.layers} blocks of width {size.hidden}" if size.layers and size.hidden else ""
    return f"{size.name}: {size.parameters:,} parameters{layers}, {job.optimizer}"


def _caption(job: Job, memory: float | None) -> str:
    parts = ["weights, gradients and optimizer states"]
    parts.append(
        f"activations of {job.batch} x {job.length} tokens"
        if job.batch
        else "without activations (--batch and --length count them)"
    )
    fits = f"; * fits into {memory:g} GiB with a tenth to spare" if memory else ""
    return f"{', '.join(parts)}; the device's own context (0.5 to 1 GiB) comes on top{fits}"


def _unit(needs: dict[str, dict[str, Need]]) -> str:
    """The largest in which the largest need is at least 1."""
    most = max(one.total for row in needs.values() for one in row.values())
    return next((unit for unit, size in _UNITS.items() if most >= size), "KiB")


def _cell(one: Need, options: argparse.Namespace, unit: str) -> str:
    mark = " *" if options.memory and one.total <= 0.9 * options.memory * _GIB else ""
    text = f"{_in(unit, one.total)}{mark}"
    if options.detail:
        parts = ((name, value) for name, value in asdict(one).items() if value)
        text = "\n".join([text, *(f"{name} {_in(unit, value)}" for name, value in parts)])
    return text


def _in(unit: str, value: float) -> str:
    size = value / _UNITS[unit]
    return f"{size:.2f}" if size < 100 else f"{size:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
