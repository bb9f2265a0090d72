import argparse
import os
import random
import warnings

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.utils.data
import torch.utils.data.distributed
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser(description="Digits")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("-b", "--batch-size", default=64, type=int, help="of all devices of a node together")
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--seed", default=1, type=int)
parser.add_argument("--world-size", default=-1, type=int, help="number of nodes for distributed training")
parser.add_argument("--rank", default=-1, type=int, help="node rank for distributed training")
parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456", type=str, help="url of the first node")
parser.add_argument("--dist-backend", default="nccl", type=str, help="distributed backend")
parser.add_argument(
    "--multiprocessing-distributed",
    action="store_true",
    help="use N processes per node, which has N devices",
)

best = 0.0


def main():
    args = parser.parse_args()
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        warnings.warn("you have chosen to seed training")

    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])

    args.distributed = args.world_size > 1 or args.multiprocessing_distributed

    ngpus_per_node = torch.cuda.device_count()
    if ngpus_per_node == 1 and args.dist_backend == "nccl":
        warnings.warn("nccl wants more than one device")
    if args.multiprocessing_distributed:
        # Every device gets a process, so the number of nodes
        # becomes the number of processes
        args.world_size = ngpus_per_node * args.world_size
        mp.spawn(main_worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args))
    else:
        # Simply call main_worker function
        main_worker(None, ngpus_per_node, args)


def main_worker(gpu, ngpus_per_node, args):
    global best
    if args.distributed:
        if args.dist_url == "env://" and args.rank == -1:
            args.rank = int(os.environ["RANK"])
        if args.multiprocessing_distributed:
            args.rank = args.rank * ngpus_per_node + gpu
        dist.init_process_group(
            backend=args.dist_backend, init_method=args.dist_url, world_size=args.world_size, rank=args.rank
        )
    model = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10))
    if not torch.cuda.is_available():
        print("using CPU, this will be slow")
    elif args.distributed:
        # one device per process
        torch.cuda.set_device(gpu)
        model.cuda(gpu)
        args.batch_size = int(args.batch_size / ngpus_per_node)
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[gpu])
    else:
        model = torch.nn.DataParallel(model).cuda()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9)

    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target)
    train_set = torch.utils.data.TensorDataset(x[:700], y[:700])
    test_set = torch.utils.data.TensorDataset(x[700:1000], y[700:1000])
    if args.distributed:
        train_sampler = torch.utils.data.distributed.DistributedSampler(train_set)
    else:
        train_sampler = None
    train_loader = torch.utils.data.DataLoader(
        train_set, batch_size=args.batch_size, shuffle=(train_sampler is None), sampler=train_sampler
    )
    test_loader = torch.utils.data.DataLoader(test_set, batch_size=args.batch_size)

    for epoch in range(args.epochs):
        if args.distributed:
            train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, device, epoch)
        accuracy = validate(test_loader, model, device)
        best = max(best, accuracy)
        if not args.multiprocessing_distributed or (
            args.multiprocessing_distributed and args.rank % ngpus_per_node == 0
        ):
            torch.save({"epoch": epoch, "model": model.state_dict(), "best": best}, "checkpoint.pt")
    print(f"best {best:.3f}")


def train(loader, model, criterion, optimizer, device, epoch):
    model.train()
    losses = 0.0
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        loss = criterion(model(images), target)
        losses += loss.item()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {losses / len(loader):.5f}")


def validate(loader, model, device):
    model.eval()
    hits = count = 0
    with torch.no_grad():
        for images, target in loader:
            images, target = images.to(device), target.to(device)
            hits += (model(images).argmax(1) == target).sum().item()
            count += target.size(0)
    print(f"accuracy {hits / count:.4f}")
    return hits / count


if __name__ == "__main__":
    main()
