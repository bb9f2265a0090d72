"""Kill a two-process training that saves every few steps with SIGKILL at random instants, resume it each time, and compare.

    python benchmarks/checkpoint_kills.py [--kills 100]

A kill comes a random time after the training has begun or gone on. A row of the table: how many kills, how many of the starts
resumed (or began afresh because nothing had been saved yet), how many checkpoints were found damaged, how many trainings came to
their end, and how many of these have the very weights of the uninterrupted one.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from pathlib import Path

from forked import start
from timing import ROOT, table

sys.path[:0] = [str(ROOT / "runtime"), str(ROOT / "codemod")]

import torch  # noqa: E402
import torch._dynamo  # noqa: E402  (the first optimizer imports it: once here instead of in every child)
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

STEPS_PER_SAVE = 2
EPOCHS = 4
NEVER = float("inf")


def train(folder: Path) -> None:
    """Train to the end from the newest checkpoint; the main process notes whether it resumed, and the final weights."""
    from accel_runtime import Accelerator, ProjectConfiguration, set_seed

    project = ProjectConfiguration(str(folder), automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=True, split_batches=True, project_config=project)
    set_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.1), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    loader = DataLoader(TensorDataset(torch.randn(250, 8), torch.randn(250, 1)), batch_size=10, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resumed = accelerator.load_state("auto")
    damaged = [str(w.message) for w in caught if "passing over" in str(w.message)]
    if accelerator.is_main_process:
        note(folder / "starts", f"{'resumed' if resumed else 'afresh'} {len(damaged)}\n")
    step = accelerator.counters.get("step", 0)
    for _ in accelerator.epochs(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(nn.functional.mse_loss(model(x), y))
            optimizer.step()
            scheduler.step()
            step += 1
            accelerator.counters["step"] = step
            if step % STEPS_PER_SAVE == 0:
                accelerator.save_state()
    if accelerator.is_main_process:
        torch.save(model.state_dict(), folder / "final.new")
        os.replace(folder / "final.new", folder / "final.pt")
    accelerator.end_training()


def lines(folder: Path) -> int:
    """How many starts have been noted."""
    path = folder / "starts"
    return path.read_text().count("\n") if path.exists() else 0


def note(path: Path, line: str) -> None:
    with open(path, "a") as file:
        file.write(line)


def end(children: list[int], folder: Path, after: float, gap: float) -> list[int]:
    """Kill them `after` seconds from when they train, the second one `gap` later, unless they have ended; their exit statuses, negative if killed."""
    noted, deadlines = lines(folder), [NEVER] * len(children)
    statuses: dict[int, int] = {}
    while len(statuses) < len(children):
        for child, deadline in zip(children, deadlines, strict=True):
            if child in statuses:
                continue
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                statuses[child] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
        if deadlines[0] == NEVER and lines(folder) > noted:
            deadlines = [time.monotonic() + after + i * gap for i in range(len(children))]
        time.sleep(0.002)
    return [statuses[child] for child in children]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    chance = random.Random(options.seed)
    whole = Path(tempfile.mkdtemp(prefix="kills-"))
    began = time.monotonic()
    assert end(start(lambda: train(whole), whole, options.processes), whole, NEVER, 0) == [0] * options.processes, (
        "the uninterrupted training failed"
    )
    duration = time.monotonic() - began
    expected = torch.load(whole / "final.pt")
    kills = resumed = afresh = damaged = failed = finished = identical = 0
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    while kills < options.kills or (folder / "starts").exists():
        after = chance.uniform(0, duration / 4) if kills < options.kills else NEVER
        statuses = end(
            start(lambda folder=folder: train(folder), folder, options.processes),
            folder,
            after,
            chance.uniform(0, 0.02),
        )
        killed = any(status == -signal.SIGKILL for status in statuses)
        kills += killed
        failed += any(status > 0 for status in statuses) and not killed
        if (folder / "final.pt").exists():
            finished += 1
            found = torch.load(folder / "final.pt")
            identical += all(torch.equal(found[name], expected[name]) for name in expected)
            starts = (folder / "starts").read_text().split("\n")[:-1]
            resumed += sum(line.startswith("resumed") for line in starts)
            afresh += sum(line.startswith("afresh") for line in starts)
            damaged += sum(int(line.split()[1]) for line in starts)
            shutil.rmtree(folder)
            folder = Path(tempfile.mkdtemp(prefix="kills-"))
    shutil.rmtree(folder)
    shutil.rmtree(whole)
    header = [
        "kills",
        "starts that resumed",
        "starts before a first checkpoint",
        "damaged checkpoints",
        "failed starts",
        "trainings finished",
        "weights identical",
    ]
    for line in table(header, [[str(n) for n in (kills, resumed, afresh, damaged, failed, finished, identical)]]):
        print(line)


if __name__ == "__main__":
    main()
