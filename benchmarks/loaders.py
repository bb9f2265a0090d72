"""What a loader costs after `prepare`: against plain PyTorch's, Hugging Face's accelerate and Lightning Fabric.

    python benchmarks/loaders.py [--processes 1,2] [--rounds 15]

First table: a pass over 256 batches of 32 per process. Second: `skip_first_batches` over 10,000 batches of 4, to the next batch
(by hand: the sampler's indices sliced, the stream read). CPU time of all processes and their workers over that of the loader by
hand in the same round, median [quartiles]; `quiet` is the same of the lowest deciles. The contestants take turns.
"""

from __future__ import annotations

import argparse
import importlib
import random
import resource
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from forked import results
from timing import quiet, ratios, spread, table

Figures = dict[str, dict[str, list[float]]]
"""Case -> contestant -> CPU seconds of each round."""


def _seconds() -> float:
    """CPU seconds of this process and of its workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def taking_turns(passes: dict[str, Callable[[], None]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each contestant in each round, after a first one that does not count."""
    figures: dict[str, list[float]] = {name: [] for name in passes}
    names = list(passes)
    for turn in range(-1, rounds):
        for name in random.Random(turn).sample(names, len(names)):
            began = _seconds()
            passes[name]()
            if turn >= 0:
                figures[name].append(_seconds() - began)
    return figures


def _join() -> tuple[int, int]:
    """Meet the other processes; this one's number, and how many there are."""
    import os

    import torch

    torch.set_num_threads(1)
    process, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if processes > 1:
        torch.distributed.init_process_group("gloo")
    return process, processes


def throughput(rounds: int) -> Figures:
    from loader_passes import cases

    process, processes = _join()
    found: Figures = {}
    for case, builds in cases(processes).items():
        loaders = {name: build(process, processes) for name, build in builds.items()}
        found[case] = taking_turns({name: partial(_exhaust, loader) for name, loader in loaders.items()}, rounds)
    return found


def _exhaust(loader: Any) -> None:
    for _ in loader:
        pass


def skipping(rounds: int) -> Figures:
    from skipped import cases

    process, processes = _join()
    return {case: taking_turns(passes, rounds) for case, passes in cases(process, processes).items()}


def rows(processes: int, rounds: int, measure: Callable[[int], Figures]) -> Iterator[list[str]]:
    ranks = results(partial(measure, rounds), processes)
    for case, contestants in ranks[0].items():
        cpu = {
            name: [sum(each) for each in zip(*(rank[case][name] for rank in ranks), strict=True)]
            for name in contestants
        }
        base = next(iter(cpu))
        over = ratios(cpu, base)
        for name, seconds in cpu.items():
            milliseconds = spread([1e3 * each for each in seconds], 1)
            yield [
                str(processes),
                case,
                name,
                milliseconds,
                spread(over[name]),
                f"{quiet(seconds) / quiet(cpu[base]):.2f}",
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", default="1,2", help="numbers of processes (default: 1,2)")
    parser.add_argument(
        "--rounds", type=int, default=15, help="passes of each (default: 15); a fifth of it for skipping"
    )
    arguments = parser.parse_args()
    importlib.import_module("torch._dynamo")  # before the fork: once for all

    numbers = [int(number) for number in arguments.processes.split(",")]
    for measure, rounds in ((throughput, arguments.rounds), (skipping, max(arguments.rounds // 5, 1))):
        lines = [row for number in numbers for row in rows(number, rounds, measure)]
        print(
            "\n".join(table(["processes", measure.__name__, "contestant", "CPU ms", "over (CPU)", "quiet"], lines)),
            flush=True,
        )


if __name__ == "__main__":
    main()
