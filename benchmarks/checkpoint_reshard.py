"""Whether a training that is interrupted in mid-epoch and resumed is the uninterrupted one, on as many processes and on other numbers.

    python benchmarks/checkpoint_reshard.py

First table: for each sort of loader, "bits" where history and final weights of the resumed training are those of the uninterrupted
one bit by bit, on as many processes; on another number the largest relative difference of a loss, if every step has the same
samples. Second table: the same difference between strategies, from 2 processes to 2 and to 3 (fully sharded: FSDP, tensor parallel: TP).
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from forked import results
from timing import ROOT, table

sys.path[:0] = [str(ROOT / "runtime"), str(ROOT / "codemod")]

import torch  # noqa: E402
import torch._dynamo  # noqa: E402  (the first optimizer imports it: once here instead of in every child)
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler  # noqa: E402

STOP = 11
NUMBERS = ((2, 1), (2, 4), (3, 2))


class OwnOrder:
    """A sampler of the script's own."""

    def __len__(self) -> int:
        return 37

    def __iter__(self) -> Iterator[int]:
        order = list(range(37))
        random.shuffle(order)
        return iter(order)


class Stream(IterableDataset[Any]):
    """Samples one after the other, from a random start."""

    def __iter__(self) -> Iterator[Any]:
        samples, start = data(), random.randrange(37)
        return (samples[(start + i) % 37] for i in range(37))


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    return TensorDataset(torch.randn(37, 6, generator=generator), torch.randn(37, 1, generator=generator))


LOADERS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: DataLoader(data(), batch_size=5, shuffle=True),
    "2 workers": lambda: DataLoader(data(), batch_size=5, shuffle=True, num_workers=2),
    "custom sampler": lambda: DataLoader(data(), batch_size=5, sampler=OwnOrder()),  # type: ignore[arg-type]
    "weighted sampler": lambda: DataLoader(data(), batch_size=5, sampler=WeightedRandomSampler([1.0] * 37, 37)),
    "iterable": lambda: DataLoader(Stream(), batch_size=5),
    "iterable, worker": lambda: DataLoader(Stream(), batch_size=5, num_workers=1),
}


class Net(nn.Module):
    """Layers that tensor parallelism finds by their names."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.up_proj, self.down_proj, self.dropout = nn.Linear(6, 12), nn.Linear(12, 1), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.dropout(torch.tanh(self.up_proj(x))))


def settings(strategy: str, processes: int) -> dict[str, Any]:
    from accel_runtime import FullyShardedDataParallelPlugin, ParallelismConfig

    if strategy == "FSDP":
        return {"fsdp_plugin": FullyShardedDataParallelPlugin()}
    return {"parallelism_config": ParallelismConfig(tp_size=processes)} if strategy == "TP" else {}


def train(folder: Path, loader: str, dropout: float, window: int, strategy: str, stop: int, resume: bool) -> Any:
    """(loss, samples) of each step from the beginning or the newest checkpoint on, and the weights; saves after `stop` batches and leaves."""
    import os

    from accel_runtime import Accelerator

    extra = settings(strategy, int(os.environ["WORLD_SIZE"]))
    accelerator = Accelerator(
        cpu=True, split_batches=True, project_dir=str(folder), gradient_accumulation_steps=window, **extra
    )
    torch.manual_seed(3 if resume else 0)
    random.seed(3 if resume else 0)
    model: Any = Net(dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    model, optimizer, loader_ = accelerator.prepare(model, optimizer, LOADERS[loader]())
    if resume:
        accelerator.load_state()
    history = []
    for _ in accelerator.epochs(3):
        for x, y in loader_:
            with accelerator.accumulate(model):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                optimizer.step()
            samples = sorted(round(v, 4) for v in accelerator.gather_for_metrics(x[:, 0]).tolist())
            history.append((accelerator.global_mean(loss).item(), samples))
            accelerator.counters["batches"] = accelerator.counters.get("batches", 0) + 1
            if accelerator.counters["batches"] == stop:
                accelerator.save_state()
                return history, {}
    return history, accelerator.get_state_dict(model)


def compared(loader: str, n: int, m: int, window: int = 1, before: str = "DDP", after: str = "DDP") -> str:
    """What the resumed training on `m` processes differs in from the uninterrupted one."""
    folder = Path(tempfile.mkdtemp(prefix="reshard-"))
    exact = (n, before) == (m, after)
    dropout = 0.3 if exact else 0.0

    def run(strategy: str, stop: int, resume: bool, where: Path) -> Callable[[], Any]:
        return lambda: train(where, loader, dropout, window, strategy, stop, resume)

    full, weights = results(run(after, 0, False, folder / "full"), m)[0]
    results(run(before, STOP, False, folder), n)
    rest, resumed = results(run(after, 0, True, folder), m)[0]
    shutil.rmtree(folder)
    expected = full[STOP:]
    if [samples for _, samples in rest] != [samples for _, samples in expected]:
        return "OTHER SAMPLES"
    if exact and rest == expected and all(torch.equal(weights[name], resumed[name]) for name in weights):
        return "bits"
    return f"{max(abs(a - b) / max(abs(b), 1e-8) for (a, _), (b, _) in zip(rest, expected, strict=True)):.0e}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    torch.set_num_threads(1)
    pairs = ((1, 1), (2, 2), (3, 3), *NUMBERS)
    lines = [[name, *(compared(name, n, m) for n, m in pairs)] for name in LOADERS]
    lines.append(["in mid-window", *(compared("shuffled", n, m, window=3) for n, m in pairs)])
    for line in table(["", *(f"{n} -> {m}" for n, m in pairs)], lines):
        print(line, flush=True)
    print()
    kinds = ("DDP", "FSDP", "TP")
    lines = [
        [f"from {before}", *(compared("shuffled", 2, m, before=before, after=after) for after in kinds for m in (2, 3))]
        for before in kinds
    ]
    for line in table(["on 2 ->", *(f"{after} on {m}" for after in kinds for m in (2, 3))], lines):
        print(line)


if __name__ == "__main__":
    main()
