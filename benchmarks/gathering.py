"""What collecting results of two processes costs: `gather`, `gather_for_metrics` and objects, over `torch.distributed`'s own.

    python benchmarks/gathering.py [--rounds 30] [--times 20]

CPU time of both processes over that of `all_gather` by hand in the same round, median [quartiles]; `quiet` is the same of the
lowest deciles. The contestants take turns in blocks of `--times` calls.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

from forked import results
from loaders import _join, taking_turns
from timing import quiet, ratios, spread, table

SHAPES = ((32,), (32, 128), (256, 1000))


def _by_hand(tensor: Any) -> Any:
    import torch

    parts = [torch.empty_like(tensor) for _ in range(torch.distributed.get_world_size())]
    torch.distributed.all_gather(parts, tensor)
    return torch.cat(parts)


def _objects_by_hand(value: Any) -> Any:
    import torch

    parts = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, value)
    return parts


def _runtimes() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any] | None]]:
    """Name -> what gathers tensors, results for metrics, and objects."""
    found: dict[str, Any] = {}
    for name in ("accel_runtime", "accelerate"):
        if importlib.util.find_spec(name):
            accelerator = importlib.import_module(name).Accelerator(cpu=True)
            objects = importlib.import_module(f"{name}.utils").gather_object
            found[name] = accelerator.gather, accelerator.gather_for_metrics, objects
    if importlib.util.find_spec("lightning_fabric"):
        fabric = importlib.import_module("lightning_fabric").Fabric(accelerator="cpu", devices=2, strategy="ddp")
        fabric.launch()
        found["Fabric"] = fabric.all_gather, fabric.all_gather, None
    return found


def measure(rounds: int, times: int) -> dict[str, dict[str, list[float]]]:
    import torch

    _join()
    runtimes = _runtimes()
    found = {}
    for shape in SHAPES:
        tensor = torch.randn(shape)
        calls = {"by hand": partial(_by_hand, tensor)}
        for name, (gather, for_metrics, _) in runtimes.items():
            calls |= {name: partial(gather, tensor), f"{name}, for metrics": partial(for_metrics, tensor)}
        calls.pop("Fabric, for metrics", None)
        found[f"{list(shape)}"] = taking_turns(
            {name: partial(_repeat, call, times) for name, call in calls.items()}, rounds
        )
    names = [f"name {index}" for index in range(32)]
    calls = {"by hand": partial(_objects_by_hand, names)}
    calls |= {name: partial(objects, names) for name, (_, _, objects) in runtimes.items() if objects is not None}
    found["32 strings"] = taking_turns({name: partial(_repeat, call, times) for name, call in calls.items()}, rounds)
    return found


def _repeat(call: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        call()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30, help="blocks of each (default: 30)")
    parser.add_argument("--times", type=int, default=20, help="calls in a block (default: 20)")
    arguments = parser.parse_args()
    importlib.import_module("torch._dynamo")  # before the fork: once for all
    ranks = results(partial(measure, arguments.rounds, arguments.times), 2)
    lines = []
    for case, contestants in ranks[0].items():
        cpu = {
            name: [sum(each) for each in zip(*(rank[case][name] for rank in ranks), strict=True)]
            for name in contestants
        }
        over = ratios(cpu, "by hand")
        for name, seconds in cpu.items():
            microseconds = spread([each / arguments.times * 1e6 for each in seconds], 0)
            lines.append(
                [case, name, microseconds, spread(over[name]), f"{quiet(seconds) / quiet(cpu['by hand']):.2f}"]
            )
    print("\n".join(table(["gathered", "contestant", "CPU us per call", "over (CPU)", "quiet"], lines)))


if __name__ == "__main__":
    main()
