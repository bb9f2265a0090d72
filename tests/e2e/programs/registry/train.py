import os
from types import SimpleNamespace

import torch

import models
from datasets import build_dataloaders
from solver import build_optimizer, build_scheduler
from utils.logger import setup_logger
from utils.metrics import Accumulator, evaluate_accuracy
from utils.misc import seed_everything, to_device

cfg = SimpleNamespace(
    model=dict(name="SmallResNet", width=6),
    optim=dict(name="SGD", lr=0.05, momentum=0.9),
    schedule=dict(name="cosine", t_max=3),
    batch_size=30, epochs=3, seed=9, device="cuda" if torch.cuda.is_available() else "cpu", out="work_dir",
)


def train_one_epoch(model, loader, criterion, optimizer, scheduler, cfg, logger, epoch):
    metric = Accumulator(3)
    model.train()
    for it, batch in enumerate(loader):
        batch = to_device(batch, cfg.device)
        logits = model(batch["image"])
        loss = criterion(logits, batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            n = batch["label"].numel()
            metric.add(loss.item() * n, float((logits.argmax(1) == batch["label"]).sum()), n)
        if it % 5 == 0:
            logger.info("epoch %d iter %d/%d loss %.4f lr %.5f", epoch, it, len(loader), loss.item(), optimizer.param_groups[0]["lr"])
    scheduler.step()
    return metric[0] / metric[2], metric[1] / metric[2]


def main():
    seed_everything(cfg.seed)
    os.makedirs(cfg.out, exist_ok=True)
    logger = setup_logger(os.path.join(cfg.out, "train.log"))
    loaders = build_dataloaders(cfg)
    model = models.build(**cfg.model).to(cfg.device)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1).to(cfg.device)
    optimizer = build_optimizer(model, **cfg.optim)
    scheduler = build_scheduler(optimizer, **cfg.schedule)
    best = 0.0
    for epoch in range(cfg.epochs):
        loss, acc = train_one_epoch(model, loaders["train"], criterion, optimizer, scheduler, cfg, logger, epoch)
        val_acc = evaluate_accuracy(model, loaders["val"], cfg.device)
        logger.info(f"epoch {epoch}: loss {loss:.4f} acc {acc:.4f} val {val_acc:.4f}")
        if val_acc > best:
            best = val_acc
            torch.save(model.state_dict(), os.path.join(cfg.out, "best.pth"))
    logger.info("best %.4f", best)


if __name__ == "__main__":
    main()
