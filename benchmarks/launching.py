"""What it costs to start two processes: `accel launch` against `torchrun` and, where they are installed, `accelerate launch` and `fabric run`.

    python benchmarks/launching.py [--rounds 5]

The script does nothing, so that all the time is the launcher's and its interpreters'. CPU seconds, which do not depend on what else
the machine does, and seconds by the clock, which do; medians with quartiles, the contestants take turns.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from pathlib import Path

from timing import python_seconds, ratios, spread, table

_LAUNCHERS: dict[str, tuple[str, ...]] = {
    "torchrun": (
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "localhost:0",
    ),
    "accel launch": ("accel_runtime.launch", "--cpu", "--num_processes", "2"),
    # with --cpu it starts a single process
    "accelerate launch": (
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
        "--dynamo_backend",
        "no",
    ),
    "fabric run": ("lightning_fabric.cli", "run", "--accelerator", "cpu", "--devices", "2", "--strategy", "ddp"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: 5)")
    rounds = parser.parse_args().rounds
    present = {name: line for name, line in _LAUNCHERS.items() if importlib.util.find_spec(line[0].partition(".")[0])}
    processor: dict[str, list[float]] = {name: [] for name in present}
    clock: dict[str, list[float]] = {name: [] for name in present}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "nothing.py")
        script.write_text("")
        for _ in range(rounds):
            for name, line in present.items():
                began = time.perf_counter()
                processor[name].append(python_seconds("-m", *line, str(script)))
                clock[name].append(time.perf_counter() - began)
    over = ratios(processor, "torchrun")
    rows = [[name, spread(processor[name]), spread(over[name]), spread(clock[name])] for name in present]
    print("\n".join(table(["two processes that do nothing", "CPU s", "over torchrun", "seconds by the clock"], rows)))


if __name__ == "__main__":
    main()
