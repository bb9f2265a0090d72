"""The training that `accel test` launches: what it finds goes into the JSON file which its argument names.

The same small model is trained by plain PyTorch, on this process alone and in full precision, and by an `Accelerator` in
each precision. 29 samples in batches of 8 leave the last batch uneven. Under context parallelism samples are sequences, and the model attends.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import Accelerator, DataLoaderConfiguration, GradScalerKwargs, set_seed
from accel_runtime.kwargs import default_precision
from accel_runtime.state import AcceleratorState, GradientState
from accel_runtime.trials.cases import WIDTH

SAMPLES, BATCH, EPOCHS = 29, 8, 2


class Model(nn.Module):
    """[n, 16] -> [n, 1], or with attention [n, tokens, 16] -> [n, tokens, 1]; the names of its layers tell tensor parallelism how to split them."""

    def __init__(self, attends: bool) -> None:
        super().__init__()
        self.attends = attends
        self.fc1 = nn.Linear(16, WIDTH)
        self.fc2 = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.fc1(x).tanh()
        if self.attends:
            hidden = nn.functional.scaled_dot_product_attention(*[hidden[:, None]] * 3, is_causal=True)[:, 0]
        return self.head(self.fc2(hidden).tanh())


class Plain:
    """Plain PyTorch under the names of `Accelerator` that the training uses."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def prepare(self, model: nn.Module, *others: Any) -> tuple[Any, ...]:
        return model.to(self.device), *others

    def autocast(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def maybe_context_parallel(self, buffers: list[torch.Tensor], buffer_seq_dims: list[int]) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def global_mean(self, loss: torch.Tensor) -> torch.Tensor:
        return loss.detach()

    def gather_for_metrics(self, rows: torch.Tensor) -> torch.Tensor:
        return rows

    def get_state_dict(self, model: nn.Module) -> dict[str, torch.Tensor]:
        return model.state_dict()


def train(accelerator: Any, tokens: int = 0) -> dict[str, Any]:
    """The losses of all steps, the weights at the end, and the numbers of the samples that were seen in each epoch.

    Args:
        accelerator: what trains.
        tokens: of a sample, if that is a sequence.
    """
    set_seed(1)
    rows = torch.randn(SAMPLES, *([tokens] if tokens else []), 16)
    data = TensorDataset(torch.arange(SAMPLES), rows, rows.sum(-1, keepdim=True).sin())
    model: Any = Model(attends=tokens > 0)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader: Any = DataLoader(data, batch_size=BATCH, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses, seen = [], []
    for _ in range(EPOCHS):
        for number, x, y in loader:
            x, y = x.to(accelerator.device), y.to(accelerator.device)
            buffers = [x, y] if tokens else []
            with accelerator.maybe_context_parallel(buffers=buffers, buffer_seq_dims=[1] * len(buffers)):
                with accelerator.autocast():
                    output = model(x)
                loss = nn.functional.mse_loss(output.float(), y)
                accelerator.backward(loss)
                losses.append(float(accelerator.global_mean(loss)))
            optimizer.step()
            optimizer.zero_grad()
            seen += accelerator.gather_for_metrics(number).tolist()
    weights = {name: value.cpu().float() for name, value in accelerator.get_state_dict(model).items()}
    return {"losses": losses, "weights": weights, "seen": seen}


def compare(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Largest differences, relative: of losses, of a tensor's norm; and whether the same samples came in the same order."""
    same_keys = found["weights"].keys() == wanted["weights"].keys()
    pairs = [(found["weights"][name], value) for name, value in wanted["weights"].items()] if same_keys else []
    return {
        "loss": max(abs(a - b) / abs(b) for a, b in zip(found["losses"], wanted["losses"], strict=True)),
        "weights": max((float((a - b).norm() / b.norm()) for a, b in pairs), default=float("inf")),
        "samples": found["seen"] == wanted["seen"],
    }


def precisions(device: torch.device) -> Iterator[str]:
    """Those that a device computes in; float8 has a launch of its own."""
    if default_precision() == "fp8":
        yield "fp8"
        return
    yield "no"
    if device.type != "cuda" or torch.cuda.is_bf16_supported():
        yield "bf16"
    if device.type != "cpu":
        yield "fp16"


def main(path: Path) -> None:
    """Run the trials; the main process writes what was found."""
    configuration = DataLoaderConfiguration(split_batches=True)
    first = Accelerator(dataloader_config=configuration, mixed_precision="no")
    device, runs = first.device, []
    tokens = 2 * first.num_processes if first.strategy.sequences is not None else 0
    wanted = train(Plain(device), tokens)
    for precision in precisions(device):
        AcceleratorState._reset_state()
        GradientState._reset_state()
        scaler = [GradScalerKwargs(init_scale=1024.0)] if precision == "fp16" else []
        accelerator = Accelerator(mixed_precision=precision, dataloader_config=configuration, kwargs_handlers=scaler)
        runs.append({"precision": precision, **compare(train(accelerator, tokens), wanted)})
        if accelerator.is_main_process:
            kind = accelerator.distributed_type.value
            path.write_text(
                json.dumps({"processes": accelerator.num_processes, "device": device.type, "type": kind, "runs": runs})
            )
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
