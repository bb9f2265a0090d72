"""What the tracing of `accel verify` adds to a training step, in CPU time.

    python benchmarks/verify_overhead.py [--rounds 15] [--steps 200]

Each script runs traced and untraced in turns, in forks of one process, and measures its own loop after a first pass that
does not count. `over` is the CPU time of a traced run over that of the untraced one of the same round: median [quartiles].
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from timing import ROOT, ratios, spread, table

sys.path[:0] = [str(ROOT / "codemod"), str(ROOT / "runtime")]

from accel_migrate.verify.job import Job  # noqa: E402
from accel_migrate.verify.warm import ForkingRunner  # noqa: E402

_SCRIPT = """\
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
kind, steps = sys.argv[1], int(sys.argv[2])
if kind == "perceptron":
    x = torch.randn(32 * steps, 64)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)).cuda()
else:
    x = torch.randn(32 * steps, 1, 28, 28)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 10)).cuda()
loader = DataLoader(TensorDataset(x, torch.randint(0, 10, (len(x),))), batch_size=32, shuffle=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()


def epoch():
    for inputs, labels in loader:
        inputs, labels = inputs.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()


epoch()
started = time.process_time()
epoch()
print((time.process_time() - started) / len(loader))
"""
_ON_CPU = "import torch\ntorch.Tensor.cuda = torch.nn.Module.cuda = lambda self, *args, **kwargs: self\n"
_TRACE = {"steps": 0, "seed": 0, "cpu": True, "off": [], "batches": 1, "nudged": False, "loads": [], "inline": False}


def measure(kind: str, rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds of a step, by contestant, one figure for each round."""
    figures: dict[str, list[float]] = {"untraced": [], "traced": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "script")
        folder.mkdir()
        (folder / "train.py").write_text(_SCRIPT)
        (folder / "plain.py").write_text(_ON_CPU + _SCRIPT)
        with ForkingRunner(Path(scratch)) as warm:
            for number in range(rounds):
                for name in list(figures) if number % 2 else reversed(figures):
                    script, trace = ("train.py", _TRACE) if name == "traced" else ("plain.py", None)
                    run = warm.run(Job(folder, script, (kind, str(steps))), trace=trace)
                    figures[name].append(float(run.lines[-1]))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    rows = []
    for kind in ("perceptron", "small convolutional network"):
        figures = measure(kind, options.rounds, options.steps)
        over = ratios(figures, "untraced")["traced"]
        rows.append([kind, *(spread([1e3 * t for t in figures[name]], 3) for name in figures), spread(over)])
    print("\n".join(table(["script", "ms per step, untraced", "traced", "over"], rows)))


if __name__ == "__main__":
    main()
