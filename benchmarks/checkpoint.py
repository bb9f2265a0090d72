"""What saving and loading a checkpoint cost: time and peak memory against torch.save, torch.distributed.checkpoint and accelerate.

    python benchmarks/checkpoint.py [--megabytes 200] [--rounds 3]

Each cell is a process of its own, which loads the model that was saved in its turn. The contestants take turns; ratios are taken
within a round. The model is in float32 with plain SGD, so that its weights are all there is to save. "async" is the time for
which `save_state(async_save=True)` holds up the training, the first time and once its buffers are there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timing import environment, table

CODE = """
import json, resource, sys, time, importlib
import torch
contestant, work, folder, layers = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(layers)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def accelerator(name):
    made = importlib.import_module(name).Accelerator(cpu=True)
    made.prepare(model, optimizer)
    return made

if contestant in ("accel_runtime", "async", "async again"):
    made = accelerator("accel_runtime")
    import accel_runtime.checkpoint.save, accel_runtime.checkpoint.load, accel_runtime.checkpoint.background
    save = lambda: made.save_state(folder, async_save=contestant != "accel_runtime")
    load = lambda: made.load_state(folder)
elif contestant == "accelerate":
    made = accelerator("accelerate")
    save, load = lambda: made.save_state(folder), lambda: made.load_state(folder)
elif contestant == "torch.save":
    save = lambda: torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder + ".pt")
    def load():
        state = torch.load(folder + ".pt"); model.load_state_dict(state["model"]); optimizer.load_state_dict(state["optimizer"])
else:
    import torch.distributed.checkpoint as dcp
    save = lambda: dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
    load = lambda: dcp.load({"model": model.state_dict()}, checkpoint_id=folder)
if contestant == "async again":
    save(); made.wait_for_checkpoint()
peak = lambda: int(next(l for l in open("/proc/self/status") if l.startswith("VmHWM")).split()[1]) / 1000
rss = int(next(l for l in open("/proc/self/status") if l.startswith("VmRSS")).split()[1]) / 1000
open("/proc/self/clear_refs", "w").write("5")
before = time.perf_counter()
(save if work == "save" else load)()
seconds = time.perf_counter() - before
if "async" in contestant:
    made.wait_for_checkpoint()
print(json.dumps([seconds, max(peak() - rss, 0)]))
"""
CONTESTANTS = ["torch.save", "accel_runtime", "accelerate", "torch.distributed.checkpoint", "async", "async again"]


def measure(contestant: str, work: str, folder: str, layers: int) -> tuple[float, float] | None:
    """Seconds and peak megabytes; None where the contestant is not installed."""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, contestant, work, folder, str(layers)],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    if "No module named" in run.stderr:
        return None
    if run.returncode:
        raise RuntimeError(run.stderr)
    return tuple(json.loads(run.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    layers = max(options.megabytes * 10**6 // (4 * 2048 * 2048), 1)
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    base = tempfile.mkdtemp(prefix="checkpoint-")
    for _ in range(options.rounds):
        for contestant in CONTESTANTS:
            for work in ("save", "load") if "async" not in contestant else ("save",):
                folder = str(Path(base) / contestant.replace(" ", "_"))
                if work == "save":
                    shutil.rmtree(folder, ignore_errors=True)
                result = measure(contestant, work, folder, layers)
                if result is not None:
                    found.setdefault((contestant, work), []).append(result)
    shutil.rmtree(base)
    for line in table(
        ["", "save s", "of torch.save", "peak MB", "load s", "of torch.load", "peak MB"],
        [_row(c, found) for c in CONTESTANTS if (c, "save") in found],
    ):
        print(line)


def _row(contestant: str, found: dict[tuple[str, str], list[tuple[float, float]]]) -> list[str]:
    row = [contestant]
    for work in ("save", "load"):
        times = found.get((contestant, work))
        if times is None:
            row += ["", "", ""]
            continue
        ratios = [mine[0] / base[0] for mine, base in zip(times, found["torch.save", work], strict=True)]
        row += [
            f"{statistics.median(t for t, _ in times):.3f}",
            f"{statistics.median(ratios):.2f}",
            f"{statistics.median(m for _, m in times):.0f}",
        ]
    return row


if __name__ == "__main__":
    main()
