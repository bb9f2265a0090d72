import argparse
from pathlib import Path

import dist_utils as utils
import numpy as np
import torch
from engine import evaluate, train_one_epoch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def get_parser():
    parser = argparse.ArgumentParser("classifier", add_help=False)
    parser.add_argument("--lr", default=0.01, type=float)
    parser.add_argument("--batch_size", default=32, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--device", default="cpu", help="device to train on")
    parser.add_argument("--seed", default=7, type=int)
    parser.add_argument("--output_dir", default="out")

    # distributed training parameters
    parser.add_argument("--world_size", default=1, type=int, help="number of distributed processes")
    parser.add_argument("--dist_url", default="env://", help="url used to set up distributed training")
    return parser


def build_data():
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    return TensorDataset(images[:600], labels[:600]), TensorDataset(images[600:800], labels[600:800])


def main(args):
    utils.init_distributed_mode(args)
    print(args.lr, args.batch_size)
    device = torch.device(args.device)

    torch.manual_seed(args.seed)
    np.random.seed(args.seed)

    train_set, test_set = build_data()
    if args.distributed:
        train_sampler = DistributedSampler(train_set)
        test_sampler = DistributedSampler(test_set, shuffle=False)
    else:
        train_sampler = torch.utils.data.RandomSampler(train_set)
        test_sampler = torch.utils.data.SequentialSampler(test_set)
    batches = torch.utils.data.BatchSampler(train_sampler, args.batch_size, drop_last=True)
    train_loader = DataLoader(train_set, batch_sampler=batches)
    test_loader = DataLoader(test_set, args.batch_size, sampler=test_sampler)

    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    model.to(device)
    model_without_ddp = model
    if args.distributed:
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[args.gpu] if device.type == "cuda" else None)
        model_without_ddp = model.module
    optimizer = torch.optim.AdamW(model_without_ddp.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)

    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        loss = train_one_epoch(model, train_loader, optimizer, device, epoch)
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch} loss {loss:.5f} accuracy {accuracy:.4f}")
        utils.save_on_master(
            {"model": model_without_ddp.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch},
            Path(args.output_dir) / "checkpoint.pth",
        )
        if utils.is_main_process():
            with (Path(args.output_dir) / "log.txt").open("a") as f:
                f.write(f"{epoch} {loss:.5f}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser("training", parents=[get_parser()])
    args = parser.parse_args()
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    main(args)
