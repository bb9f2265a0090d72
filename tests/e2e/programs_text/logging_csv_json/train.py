"""logging with a FileHandler, csv, json history, TensorBoard, yaml-like config dict."""
import csv
import json
import logging
import os
import random
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.tensorboard import SummaryWriter

CONFIG = {
    "seed": 123,
    "batch_size": 24,
    "epochs": 2,
    "lr": 0.05,
    "out_dir": "runs/exp1",
    "device": "cuda" if torch.cuda.is_available() else "cpu",
}


def setup_logger(out_dir):
    os.makedirs(out_dir, exist_ok=True)
    logger = logging.getLogger("train")
    logger.setLevel(logging.INFO)
    fmt = logging.Formatter("[%(levelname)s] %(message)s")
    fh = logging.FileHandler(os.path.join(out_dir, "train.log"))
    fh.setFormatter(fmt)
    sh = logging.StreamHandler(sys.stdout)
    sh.setFormatter(fmt)
    logger.addHandler(fh)
    logger.addHandler(sh)
    return logger


def seed_everything(seed):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def main(cfg):
    seed_everything(cfg["seed"])
    logger = setup_logger(cfg["out_dir"])
    logger.info("config: %s", json.dumps({k: v for k, v in cfg.items() if k != "device"}))
    writer = SummaryWriter(cfg["out_dir"])
    with open(os.path.join(cfg["out_dir"], "config.json"), "w") as f:
        json.dump(cfg, f, indent=2)
    device = torch.device(cfg["device"])
    x = torch.randn(130, 12)
    y = torch.tanh(x[:, :3].sum(1) * 2).gt(0).long()
    train_dl = DataLoader(TensorDataset(x[:100], y[:100]), cfg["batch_size"], shuffle=True)
    val_dl = DataLoader(TensorDataset(x[100:], y[100:]), cfg["batch_size"])
    model = nn.Sequential(nn.Linear(12, 20), nn.Tanh(), nn.Linear(20, 2)).to(device)
    logger.info("number of parameters: %d", sum(p.numel() for p in model.parameters()))
    opt = torch.optim.SGD(model.parameters(), lr=cfg["lr"], momentum=0.9)
    csv_file = open(os.path.join(cfg["out_dir"], "log.csv"), "w", newline="")
    csv_writer = csv.DictWriter(csv_file, fieldnames=["epoch", "train_loss", "val_loss", "val_acc"])
    csv_writer.writeheader()
    history = {"train_loss": [], "val_loss": [], "val_acc": []}
    global_step = 0
    for epoch in range(cfg["epochs"]):
        model.train()
        losses = []
        for xb, yb in train_dl:
            xb, yb = xb.to(device), yb.to(device)
            loss = F.cross_entropy(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
            writer.add_scalar("train/loss", loss.item(), global_step)
            writer.add_scalar("train/lr", opt.param_groups[0]["lr"], global_step)
            if global_step % 3 == 0:
                logger.info(f"step {global_step} loss {loss:.4f}")
            global_step += 1
        model.eval()
        val_loss, n_correct = 0.0, 0
        with torch.no_grad():
            for xb, yb in val_dl:
                xb, yb = xb.to(device), yb.to(device)
                logits = model(xb)
                val_loss += F.cross_entropy(logits, yb, reduction="sum").item()
                n_correct += logits.argmax(-1).eq(yb).sum().item()
        val_loss /= len(val_dl.dataset)
        val_acc = n_correct / len(val_dl.dataset)
        writer.add_scalars("val", {"loss": val_loss, "acc": val_acc}, epoch)
        history["train_loss"].append(float(np.mean(losses)))
        history["val_loss"].append(val_loss)
        history["val_acc"].append(val_acc)
        csv_writer.writerow({"epoch": epoch, "train_loss": np.mean(losses), "val_loss": val_loss, "val_acc": val_acc})
        csv_file.flush()
        logger.info("epoch %d: train %.4f val %.4f acc %.3f", epoch, np.mean(losses), val_loss, val_acc)
    csv_file.close()
    writer.close()
    with open(os.path.join(cfg["out_dir"], "history.json"), "w") as f:
        json.dump(history, f)
    torch.save(model.state_dict(), os.path.join(cfg["out_dir"], "final.pth"))


if __name__ == "__main__":
    main(CONFIG)
