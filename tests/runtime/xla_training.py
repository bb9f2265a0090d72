"""Train a small net and save it: `xla_training.py FOLDER transformer|convolutional [fsdp] [bf16] [accumulate] [resume]`; prints the losses as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, FullyShardedDataParallelPlugin
from accel_runtime.utils import set_seed
from runtime.networks import Transformer, convolutional, images, sentences


def main() -> None:
    folder, net, *settings = sys.argv[1:]
    warnings.simplefilter("ignore")
    accelerator = Accelerator(
        mixed_precision="bf16" if "bf16" in settings else "no",
        split_batches=True,
        gradient_accumulation_steps=2 if "accumulate" in settings else 1,
        fsdp_plugin=FullyShardedDataParallelPlugin() if "fsdp" in settings else None,
    )
    set_seed(1)
    model = Transformer() if net == "transformer" else convolutional()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    parameters = list(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    loader = DataLoader(sentences() if net == "transformer" else images(), batch_size=4, shuffle=True)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    assert all(new is old for new, old in zip(model.parameters(), parameters, strict=True))
    accelerator.register_for_checkpointing(Progress(seen := []))
    if "resume" in settings:
        accelerator.load_state(f"{folder}/state")
    for epoch in range(2):
        if epoch == 0 and "resume" in settings:
            continue
        for inputs, targets in loader:
            with accelerator.accumulate(model), accelerator.autocast():
                loss = nn.functional.cross_entropy(model(inputs).flatten(0, -2), targets.flatten())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            seen.append(accelerator.gather(loss.detach()).mean().item())
        if epoch == 0 and "resume" not in settings:
            accelerator.save_state(f"{folder}/state")
    accelerator.save(model.state_dict(), Path(folder, "weights.pt"))
    print(json.dumps({"losses": seen, "device": accelerator.device.type, "processes": accelerator.num_processes}))


class Progress:
    """The losses so far, as an object of the checkpoint."""

    def __init__(self, seen: list[float]) -> None:
        self.seen = seen

    def state_dict(self) -> dict[str, list[float]]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, list[float]]) -> None:
        self.seen[:] = state["seen"]


if __name__ == "__main__":
    main()
