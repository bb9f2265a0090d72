"""What saving and loading a checkpoint cost: time and peak memory against torch.save, torch.distributed.checkpoint and accelerate.

    python benchmarks/checkpoint.py [--megabytes 200] [--rounds 3] [--folder /dev/shm]

Each cell is a process of its own (forked, everything imported), which loads the model that was saved in its turn. The contestants
take turns; ratios are taken within a round. The model is in float32 with plain SGD, so that its weights are all there is to save.
"save" is how long the call holds up the training, "on disk" how long it is until all is on the disk: for accel_runtime what
`wait_for_checkpoint` waits for; the files of the others, which leave that to the system, are synced by the benchmark.
"CPU s" is what the call computes, which a busy machine changes less than its seconds.
"async" is `save_state(async_save=True)`: the first time, the first time after `ProjectConfiguration(async_save=True)` and a step, and
the second time. The last column is what the call takes of accel_runtime's blocking save, until that is on the disk.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from timing import ROOT, table

sys.path[:0] = [str(ROOT / "runtime"), str(ROOT / "codemod")]

import torch  # noqa: E402
import torch._dynamo  # noqa: E402  (the first optimizer imports it: once here instead of in every child)
import torch.distributed.checkpoint as dcp  # noqa: E402

CONTESTANTS = [
    "torch.save",
    "accel_runtime",
    "accelerate",
    "torch.distributed.checkpoint",
    "async",
    "async, announced",
    "async again",
]
Measured = tuple[float, float, float, float]
IMPORTED = ("save", "load", "background", "foreign")


def contestants() -> list[str]:
    """Those that are installed."""
    return [name for name in CONTESTANTS if name != "accelerate" or importlib.util.find_spec("accelerate") is not None]


def prepared(name: str, model: Any, optimizer: Any, **options: Any) -> Any:
    package = importlib.import_module(name)
    made = (
        package.Accelerator(cpu=True, project_config=package.ProjectConfiguration(**options))
        if options
        else package.Accelerator(cpu=True)
    )
    made.prepare(model, optimizer)
    return made


def synced(folder: str) -> Callable[[], None]:
    """What sees to it that what was saved under this name is on the disk."""

    def sync() -> None:
        for path in (Path(f"{folder}.pt"), *Path(folder).rglob("*")):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())

    return sync


def calls(
    contestant: str, folder: str, model: Any, optimizer: Any
) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], Any]]:
    """What saves, what loads, and what waits until it is on the disk."""
    if contestant == "torch.save":
        both = {"model": model, "optimizer": optimizer}

        def load() -> None:
            state = torch.load(f"{folder}.pt")
            for name, target in both.items():
                target.load_state_dict(state[name])

        return lambda: torch.save({n: t.state_dict() for n, t in both.items()}, f"{folder}.pt"), load, synced(folder)
    if contestant == "torch.distributed.checkpoint":
        state = {"model": model.state_dict()}
        return (
            lambda: dcp.save(state, checkpoint_id=folder),
            lambda: dcp.load(state, checkpoint_id=folder),
            synced(folder),
        )
    if contestant == "accelerate":
        made = prepared("accelerate", model, optimizer)
        return lambda: made.save_state(folder), lambda: made.load_state(folder), synced(folder)
    announced = {"async_save": True} if "announced" in contestant else {}
    made = prepared("accel_runtime", model, optimizer, **announced)
    if announced:
        optimizer.step()
        time.sleep(1)  # a training would be in its steps
    save = lambda: made.save_state(folder, async_save="async" in contestant)  # noqa: E731
    if contestant == "async again":
        save()
        made.wait_for_checkpoint()
    return save, lambda: made.load_state(folder), made.wait_for_checkpoint


def megabytes(field: str) -> float:
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) / 1000


def child(answer: Connection, contestant: str, work: str, folder: str, layers: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(layers)))
    save, load, wait = calls(contestant, folder, model, torch.optim.SGD(model.parameters(), lr=0.1))
    before = megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began, computed = time.perf_counter(), time.process_time()
    (save if work == "save" else load)()
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    wait()
    waited = time.perf_counter() - began
    answer.send((seconds, waited, max(megabytes("VmHWM") - before, 0), computed))


def measure(contestant: str, work: str, folder: str, layers: int) -> Measured:
    """Seconds of the call, seconds until all is on the disk, peak megabytes, seconds of the processor for the call."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(sender, contestant, work, folder, layers))
    process.start()
    sender.close()
    found = receiver.recv()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="more where the machine is shared")
    parser.add_argument(
        "--folder", help="where to write; /dev/shm leaves the disk, which others may use too, out of it"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in ("accel_runtime", *(n for n in contestants() if n == "accelerate")):
        importlib.import_module(name).Accelerator  # noqa: B018
    for name in IMPORTED:
        importlib.import_module(f"accel_runtime.checkpoint.{name}")
    layers = max(options.megabytes * 10**6 // (4 * 2048 * 2048), 1)
    found: dict[tuple[str, str], list[Measured]] = {}
    base = tempfile.mkdtemp(prefix="checkpoint-", dir=options.folder)
    for _ in range(options.rounds):
        for contestant in contestants():
            for work in ("save", "load") if "async" not in contestant else ("save",):
                folder = str(Path(base) / contestant.replace(" ", "_"))
                if work == "save":
                    shutil.rmtree(folder, ignore_errors=True)
                found.setdefault((contestant, work), []).append(measure(contestant, work, folder, layers))
    shutil.rmtree(base)
    for line in table(
        [
            "",
            "save s",
            "CPU s",
            "of torch.save",
            "on disk s",
            "of that",
            "peak MB",
            "load s",
            "CPU s",
            "of torch.load",
            "peak MB",
            "stall",
        ],
        [_row(c, found) for c in CONTESTANTS if (c, "save") in found],
    ):
        print(line)


def _row(contestant: str, found: dict[tuple[str, str], list[Measured]]) -> list[str]:
    row = [contestant]
    for work in ("save", "load"):
        times = found.get((contestant, work))
        if times is None:
            row += [""] * 4
            continue
        cpu = [f"{statistics.median(mine[3] for mine in times):.3f}"]
        base = found["torch.save", work]
        for at in (0, 1) if work == "save" else (0,):
            row += [f"{statistics.median(mine[at] for mine in times):.3f}", *cpu, _ratio(times, base, at, at)]
            cpu = []
        row.append(f"{statistics.median(mine[2] for mine in times):.0f}")
    row.append(_ratio(found[contestant, "save"], found["accel_runtime", "save"], 0, 1))
    return row


def _ratio(mine: list[Measured], base: list[Measured], at: int, of: int) -> str:
    """The median over the rounds of figure `at` to figure `of` of the base."""
    return f"{statistics.median(a[at] / b[of] for a, b in zip(mine, base, strict=True)):.2f}"


if __name__ == "__main__":
    main()
