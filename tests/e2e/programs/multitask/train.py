import json
import logging
import os
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.dataloader import default_collate
from tqdm import tqdm

logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[logging.FileHandler("run.log"), logging.StreamHandler()])
logger = logging.getLogger(__name__)


class FaceDataset(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, 10, generator=g)
        self.age = self.x[:, 0] * 3 + 20
        self.gender = (self.x[:, 1] > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"image": self.x[i], "labels": {"age": self.age[i], "gender": self.gender[i]}}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
        self.age = nn.Linear(32, 1)
        self.gender = nn.Linear(32, 2)

    def forward(self, x):
        h = self.backbone(x)
        return {"age": self.age(h).squeeze(1), "gender": self.gender(h)}

    def get_loss(self, outputs, labels):
        age_loss = F.l1_loss(outputs["age"], labels["age"])
        gender_loss = F.cross_entropy(outputs["gender"], labels["gender"])
        return age_loss * 0.1 + gender_loss, {"age": age_loss, "gender": gender_loss}


def freeze(module):
    for p in module.parameters():
        p.requires_grad_(False)


def run_epoch(model, loader, device, optimizer=None):
    is_train = optimizer is not None
    model.train(is_train)
    sums = defaultdict(float)
    correct = n = 0
    with torch.set_grad_enabled(is_train):
        for batch in tqdm(loader, desc="train" if is_train else "val", disable=True):
            images = batch["image"].to(device)
            labels = {k: v.to(device) for k, v in batch["labels"].items()}
            outputs = model(images)
            loss, parts = model.get_loss(outputs, labels)
            if is_train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            bs = images.size(0)
            sums["loss"] += loss.item() * bs
            for name, value in parts.items():
                sums[name] += value.item() * bs
            correct += (outputs["gender"].argmax(1) == labels["gender"]).sum().item()
            n += bs
    out = {k: v / n for k, v in sums.items()}
    out["acc"] = correct / n
    return out


def main():
    torch.manual_seed(1)
    out_dir = Path("exp")
    out_dir.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_loader = DataLoader(FaceDataset(110, 0), batch_size=32, shuffle=True)
    val_loader = DataLoader(FaceDataset(45, 1), batch_size=32)
    model = MultiTask().to(device)
    freeze(model.backbone[0])
    optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.05)
    logger.info("trainable %d", sum(p.numel() for p in model.parameters() if p.requires_grad))
    results, best = [], None
    for epoch in range(3):
        train_metrics = run_epoch(model, train_loader, device, optimizer)
        val_metrics = run_epoch(model, val_loader, device)
        print(epoch, " ".join(f"{k} {v:.4f}" for k, v in train_metrics.items()), "|", " ".join(f"{k} {v:.4f}" for k, v in val_metrics.items()))
        results.append({"epoch": epoch, "train": train_metrics, "val": val_metrics})
        if best is None or val_metrics["loss"] < best:
            best = val_metrics["loss"]
            torch.save(model.state_dict(), out_dir / "best.pt")
            logger.info("saved %s", out_dir / "best.pt")
    (out_dir / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main()
