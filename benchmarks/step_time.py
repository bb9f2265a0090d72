"""What a training step costs over a loop written by hand, on one process and on several.

    python benchmarks/step_time.py [--processes 1,2] [--rounds 40] [--steps 48]

A tiny network on purpose: the cost of a step that is all overhead. The contestants take turns in blocks of `--steps`
micro-steps, in the same processes. `over` is the CPU time of a block, all processes together, over that of the loop by hand
in the same round: median [quartiles]; `quiet` the same of the lowest deciles of all blocks, which a busy machine disturbs
less; `user` that of the user time only, without what the kernel spends on waking threads. On several processes gradients travel
by gloo's threads, which wake each other some fifteen times a step; where they run is luck that holds for a whole run. accel_runtime
gives gradients a process group of their own, and so does "by hand, own group"; the others share one. Before each block the
contestant runs an untimed one. Calls are those of Python functions per micro-step in process 0, which no other load
changes. Hugging Face's accelerate and Lightning Fabric take part where they are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from step_loops import Case
from timing import ROOT, environment, quiet, ratios, spread, table

CASES = {
    "step": Case(),
    "clipping, scheduler": Case(extras=True),
    "DataLoader": Case(loads=True),
    "accumulate() of 1": Case(window=1),
    "accumulate() of 4": Case(window=4),
}


def measure(rounds: int, steps: int, chosen: Sequence[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """In one of the processes: case -> contestant -> CPU and wall seconds of each block, and calls per step."""
    import torch
    from step_peers import contestants

    processes = int(os.environ["WORLD_SIZE"])
    if processes > 1:
        torch.distributed.init_process_group("gloo")
    return {
        case: _case(
            {name: build(steps, processes, what) for name, build in contestants(processes).items()}, rounds, steps
        )
        for case, what in CASES.items()
        if case in chosen
    }


def _case(passes: dict[str, Callable[[], None]], rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    import torch

    torch.set_num_threads(1)  # after the contestants are made: each may have set it as it likes
    return measured(passes, rounds, steps)


def measured(passes: dict[str, Callable[[], None]], rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    """Seconds of each pass in each round, in turns, and its Python calls per step."""
    figures: dict[str, dict[str, Any]] = {name: {"cpu": [], "user": [], "wall": []} for name in passes}
    names = list(passes)
    for turn in range(rounds):
        for name in random.Random(turn).sample(names, len(names)):  # a block may suffer from the one before it
            run = passes[name]
            run()
            user, cpu, wall = (
                resource.getrusage(resource.RUSAGE_SELF).ru_utime,
                time.process_time(),
                time.perf_counter(),
            )
            run()
            figures[name]["cpu"].append(time.process_time() - cpu)
            figures[name]["user"].append(resource.getrusage(resource.RUSAGE_SELF).ru_utime - user)
            figures[name]["wall"].append(time.perf_counter() - wall)
    for name, run in passes.items():
        figures[name]["calls"] = calls(run) / steps
    return figures


def calls(run: Callable[[], None]) -> int:
    """How many Python functions are called while `run` runs."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def launch(
    processes: int, rounds: int, steps: int, chosen: Sequence[str]
) -> list[dict[str, dict[str, dict[str, Any]]]]:
    """Start the processes, let them `measure`, and collect what each has to say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "step_time.py"),
        "--measure",
        "--rounds",
        str(rounds),
        "--steps",
        str(steps),
        "--cases",
        *chosen,
    ]
    world = {
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "ACCELERATE_USE_CPU": "true",
    }
    children = [
        subprocess.Popen(
            command, env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **world), stdout=subprocess.PIPE, text=True
        )
        for rank in range(processes)
    ]
    printed = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit("a process failed; see above")
    return [json.loads(text.splitlines()[-1]) for text in printed]


def rows(processes: int, rounds: int, steps: int, chosen: Sequence[str]) -> Iterator[list[str]]:
    """The lines of the table for one number of processes."""
    ranks = launch(processes, rounds, steps, chosen)
    for case, contestants in ranks[0].items():
        cpu = {
            name: [sum(block) for block in zip(*(rank[case][name]["cpu"] for rank in ranks), strict=True)]
            for name in contestants
        }
        user = {name: sum(sum(rank[case][name]["user"]) for rank in ranks) for name in contestants}
        wall = {name: figures["wall"] for name, figures in contestants.items()}
        base = next(iter(contestants))
        over_cpu, over_wall = ratios(cpu, base), ratios(wall, base)
        for name, figures in contestants.items():
            microseconds = spread([seconds / steps * 1e6 for seconds in cpu[name]], 0)
            yield [
                str(processes),
                case,
                name,
                microseconds,
                spread(over_cpu[name]),
                f"{quiet(cpu[name]) / quiet(cpu[base]):.2f}",
                f"{user[name] / user[base]:.2f}",
                spread(over_wall[name]),
                f"{figures['calls']:.0f}",
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", default="1,2", help="numbers of processes (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=40, help="blocks per contestant (default: 40)")
    parser.add_argument("--steps", type=int, default=48, help="micro-steps in a block, a multiple of 4 (default: 48)")
    parser.add_argument(
        "--cases",
        nargs="+",
        default=list(CASES),
        choices=CASES,
        metavar="CASE",
        help=f"of {', '.join(CASES)} (default: all)",
    )
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.rounds, arguments.steps, arguments.cases)))
        return
    lines = [
        row
        for number in arguments.processes.split(",")
        for row in rows(int(number), arguments.rounds, arguments.steps, arguments.cases)
    ]
    print(
        "\n".join(
            table(
                ["processes", "case", "contestant", "CPU us", "over (CPU)", "quiet", "user", "over (wall)", "calls"],
                lines,
            )
        )
    )


if __name__ == "__main__":
    main()
