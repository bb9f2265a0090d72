"""What sharding costs and saves: a step of `accel_runtime` over one by hand with `fully_shard`, and the memory of both strategies.

    python benchmarks/sharded.py [--processes 2] [--rounds 20] [--steps 10]

Step: a small transformer of four blocks; loop by hand and `accel_runtime` take turns in the same processes. Memory: the highest
resident size that training steps of a model of 200 MB (AdamW) reach above what the process had before it made the model. glibc
keeps large blocks that were freed unless `MALLOC_MMAP_THRESHOLD_` is set, as it is here: on a CPU, set it for a sharded training too.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from step_time import measured
from timing import ROOT, environment, ratios, spread, table


def _model(width: int, layers: int) -> Any:
    from torch import nn

    block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(block, layers, enable_nested_tensor=False)


def _loop(model: Any, optimizer: Any, backward: Callable[[Any], None], clip: Callable[..., Any], steps: int) -> Callable[[], None]:
    import torch

    x = torch.randn(4, 8, 32)

    def run() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            backward(model(x).square().mean())
            clip(model.parameters(), 1.0)
            optimizer.step()

    return run


def by_hand(steps: int) -> Callable[[], None]:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = _model(32, 4)
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters())
    return _loop(model, optimizer, lambda loss: loss.backward(), torch.nn.utils.clip_grad_norm_, steps)


def accel_runtime(steps: int) -> Callable[[], None]:
    import torch

    accelerator = _accelerator("fsdp")
    model = _model(32, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer = accelerator.prepare(model, optimizer)
    return _loop(model, optimizer, accelerator.backward, accelerator.clip_grad_norm_, steps)


def _accelerator(strategy: str) -> Any:
    from accel_runtime import Accelerator, FullyShardedDataParallelPlugin

    return Accelerator(split_batches=True, fsdp_plugin=FullyShardedDataParallelPlugin() if strategy == "fsdp" else None)


def measure_step(rounds: int, steps: int) -> dict[str, dict[str, Any]]:
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    passes = {"by hand": by_hand(steps), "accel_runtime": accel_runtime(steps)}
    return measured(passes, rounds, steps)


def measure_memory(strategy: str) -> float:
    """MB above the start, at the highest."""
    import torch
    import torch._dynamo
    import torch.distributed.fsdp
    import torch.distributed.tensor

    torch.set_num_threads(1)
    accelerator = _accelerator(strategy)
    accelerator.wait_for_everyone()
    before = _status("VmRSS")
    with torch.device("cpu" if accelerator.is_main_process or strategy != "fsdp" else "meta"):
        model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(2048, 2048, bias=False), torch.nn.ReLU()) for _ in range(12)))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    model, optimizer = accelerator.prepare(model, optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        accelerator.backward(model(torch.randn(4, 2048)).square().mean())
        optimizer.step()
    return (_status("VmHWM") - before) / 1024


def _status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])


def launch(processes: int, *arguments: str) -> list[Any]:
    """Start the processes, and collect what each has to say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(ROOT / "benchmarks" / "sharded.py"), *arguments]
    world = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
    world |= {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
    children = [
        subprocess.Popen(command, env=environment(RANK=str(rank), LOCAL_RANK=str(rank), **world), stdout=subprocess.PIPE, text=True)
        for rank in range(processes)
    ]
    printed = [child.communicate()[0] for child in children]
    if any(child.returncode for child in children):
        raise SystemExit("a process failed; see above")
    return [json.loads(text.splitlines()[-1]) for text in printed]


def step_rows(processes: int, rounds: int, steps: int) -> list[list[str]]:
    ranks = launch(processes, "--measure", "step", "--rounds", str(rounds), "--steps", str(steps))
    cpu = {name: [sum(block) for block in zip(*(rank[name]["cpu"] for rank in ranks), strict=True)] for name in ranks[0]}
    wall = {name: figures["wall"] for name, figures in ranks[0].items()}
    over_cpu, over_wall = ratios(cpu, "by hand"), ratios(wall, "by hand")
    return [
        [str(processes), name, spread([s / steps * 1e3 for s in cpu[name]]), spread(over_cpu[name]), spread(over_wall[name]), f"{ranks[0][name]['calls']:.0f}"]
        for name in cpu
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20, help="blocks per contestant (default: 20)")
    parser.add_argument("--steps", type=int, default=10, help="steps in a block (default: 10)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure == "step":
        print(json.dumps(measure_step(arguments.rounds, arguments.steps)))
        sys.stdout.flush()
        os._exit(0)  # gloo's threads of the loop by hand are not worth waiting for
    elif arguments.measure:
        print(json.dumps(measure_memory(arguments.measure)))
    else:
        lines = step_rows(arguments.processes, arguments.rounds, arguments.steps)
        print("\n".join(table(["processes", "contestant", "CPU ms per step", "over (CPU)", "over (wall)", "calls"], lines)))
        memory = [[strategy, *(f"{mb:.0f}" for mb in launch(arguments.processes, "--measure", strategy))] for strategy in ("ddp", "fsdp")]
        print("\n".join(table(["strategy", *(f"MB, process {rank}" for rank in range(arguments.processes))], memory)))


if __name__ == "__main__":
    main()
