"""What saving and loading a checkpoint cost: time and peak memory against torch.save, torch.distributed.checkpoint and accelerate.

    python benchmarks/checkpoint.py [--megabytes 200] [--rounds 3] [--folder /dev/shm] [--optimizer AdamW] [--again]

Each cell is a process of its own (forked, everything imported), which loads the model that was saved in its turn. The contestants
take turns; ratios are taken within a round. The model is in float32, by default with plain SGD, so that its weights are all there is
to save; with AdamW the weights are a third of the megabytes. `--again` measures what a process saves and loads the second time:
the first time, a virtual machine may have to be given memory first, which costs several times what the saving does.
"cold" is loading what the system has no longer in its memory, as after a restart. The second table compares with accelerate alone.
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
from collections.abc import Callable, Iterator
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
WORKS = ("save", "load", "cold")
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


def forget(folder: str) -> None:
    """Let the system have the files under this name on the disk only."""
    for path in (Path(f"{folder}.pt"), *Path(folder).rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def trained(layers: int, name: str) -> tuple[Any, Any]:
    """A model and its optimizer after a step."""
    model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(layers)))
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


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
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
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
    save = lambda: made.save_state(folder, async_save="async" in contestant)  # noqa: E731
    if contestant == "async again":
        save()
        made.wait_for_checkpoint()
    if contestant.startswith("async"):
        time.sleep(1)  # a training would be in its steps
    return save, lambda: made.load_state(folder), made.wait_for_checkpoint


def megabytes(field: str) -> float:
    return int(next(line for line in open("/proc/self/status") if line.startswith(field)).split()[1]) / 1000


def in_a_process(work: Callable[..., None], *arguments: Any) -> multiprocessing.process.BaseProcess:
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    return process


def child(answer: Connection, contestant: str, work: str, folder: str, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    save, load, wait = calls(contestant, folder, *trained(options.layers, options.optimizer))
    act = save if work == "save" else load
    if options.again:
        act()
        wait()
    if options.again and work == "save":
        shutil.rmtree(folder, ignore_errors=True)
    if work == "cold":
        forget(folder)
    before = megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began, computed = time.perf_counter(), time.process_time()
    act()
    seconds, computed = time.perf_counter() - began, time.process_time() - computed
    wait()
    waited = time.perf_counter() - began
    answer.send((seconds, waited, max(megabytes("VmHWM") - before, 0), computed))


def measure(contestant: str, work: str, folder: str, options: argparse.Namespace) -> Measured:
    """Seconds of the call, seconds until all is on the disk, peak megabytes, seconds of the processor for the call."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = in_a_process(child, sender, contestant, work, folder, options)
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
    parser.add_argument("--optimizer", default="SGD", choices=["SGD", "AdamW"])
    parser.add_argument("--again", action="store_true", help="measure the second time in a process")
    parser.add_argument("--only", nargs="*", default=[], choices=CONTESTANTS, help="the default is all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in ("accel_runtime", *(n for n in contestants() if n == "accelerate")):
        importlib.import_module(name).Accelerator  # noqa: B018
    for name in IMPORTED:
        importlib.import_module(f"accel_runtime.checkpoint.{name}")
    copies = 3 if options.optimizer == "AdamW" else 1
    options.layers = max(options.megabytes * 10**6 // (4 * 2048 * 2048 * copies), 1)
    racing = [name for name in contestants() if name == "torch.save" or name in (options.only or CONTESTANTS)]
    found: dict[tuple[str, str], list[Measured]] = {}
    base = tempfile.mkdtemp(prefix="checkpoint-", dir=options.folder)
    for _ in range(options.rounds):
        for contestant in racing:
            for work in WORKS if "async" not in contestant else ("save",):
                folder = str(Path(base) / contestant.replace(" ", "_"))
                if work == "save":
                    shutil.rmtree(folder, ignore_errors=True)
                found.setdefault((contestant, work), []).append(measure(contestant, work, folder, options))
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
            "cold s",
            "CPU s",
            "stall",
        ],
        [_row(c, found) for c in racing],
    ):
        print(line)
    if ("accelerate", "save") in found and ("accel_runtime", "save") in found:
        print()
        for line in table(["accel_runtime / accelerate", "median", "quartiles"], list(_against_accelerate(found))):
            print(line)


def _against_accelerate(found: dict[tuple[str, str], list[Measured]]) -> Iterator[list[str]]:
    for label, work, at in (
        ("save, seconds", "save", 0),
        ("save, CPU seconds", "save", 3),
        ("save until on the disk, seconds", "save", 1),
        ("load, seconds", "load", 0),
        ("load, CPU seconds", "load", 3),
        ("load cold, seconds", "cold", 0),
        ("load cold, CPU seconds", "cold", 3),
    ):
        pairs = zip(found["accel_runtime", work], found["accelerate", work], strict=True)
        ratios = [mine[at] / theirs[at] for mine, theirs in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        yield [label, f"{middle:.2f}", f"{low:.2f}-{high:.2f}"]


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
    cold = found.get((contestant, "cold"), [])
    row += [f"{statistics.median(mine[at] for mine in cold):.3f}" if cold else "" for at in (0, 3)]
    blocking = found.get(("accel_runtime", "save"))
    row.append(_ratio(found[contestant, "save"], blocking, 0, 1) if blocking else "")
    return row


def _ratio(mine: list[Measured], base: list[Measured], at: int, of: int) -> str:
    """The median over the rounds of figure `at` to figure `of` of the base."""
    return f"{statistics.median(a[at] / b[of] for a, b in zip(mine, base, strict=True)):.2f}"


if __name__ == "__main__":
    main()
