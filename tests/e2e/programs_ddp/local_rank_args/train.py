import argparse
import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler

logger = logging.getLogger(__name__)


def load_examples(args):
    if args.local_rank not in [-1, 0]:
        dist.barrier()  # the first process fills the cache, the others use it
    path = os.path.join(args.output_dir, "cache.pt")
    if not os.path.exists(path):
        generator = torch.Generator().manual_seed(2)
        features = torch.randn(120, 5, generator=generator)
        torch.save((features, features.sum(1, keepdim=True)), path)
    features, targets = torch.load(path)
    if args.local_rank == 0:
        dist.barrier()
    return TensorDataset(features, targets)


def train(args, dataset, model):
    sampler = RandomSampler(dataset) if args.local_rank == -1 else DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler, batch_size=args.per_gpu_batch_size * max(1, args.n_gpu))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)

    if args.n_gpu > 1:
        model = nn.DataParallel(model)
    if args.local_rank != -1:
        model = nn.parallel.DistributedDataParallel(
            model, device_ids=[args.local_rank] if args.device.type == "cuda" else None, find_unused_parameters=True
        )

    logger.info("  Total train batch size = %d", args.per_gpu_batch_size * (dist.get_world_size() if args.local_rank != -1 else 1))
    for epoch in range(args.epochs):
        if args.local_rank != -1:
            sampler.set_epoch(epoch)
        for step, batch in enumerate(loader):
            model.train()
            batch = tuple(t.to(args.device) for t in batch)
            loss = nn.functional.mse_loss(model(batch[0]), batch[1])
            if args.n_gpu > 1:
                loss = loss.mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if args.local_rank in [-1, 0] and step % 4 == 0:
                print(f"{epoch}/{step} {loss.item():.5f}")
        if args.local_rank in [-1, 0]:
            model_to_save = model.module if hasattr(model, "module") else model
            torch.save(model_to_save.state_dict(), os.path.join(args.output_dir, "model.bin"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--per_gpu_batch_size", default=6, type=int)
    parser.add_argument("--learning_rate", default=1e-2, type=float)
    parser.add_argument("--epochs", default=2, type=int)
    parser.add_argument("--no_cuda", action="store_true", help="whether not to use CUDA when available")
    parser.add_argument("--seed", default=42, type=int)
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", -1)), help="for distributed training")
    args = parser.parse_args()

    if args.local_rank == -1 or args.no_cuda:
        args.device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
        args.n_gpu = torch.cuda.device_count()
    else:
        args.device = torch.device("cuda", args.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        args.n_gpu = 1
    if args.local_rank != -1:
        dist.init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")

    logging.basicConfig(level=logging.INFO if args.local_rank in [-1, 0] else logging.WARN)
    logger.warning("rank %s on %s, distributed: %s", args.local_rank, args.device, bool(args.local_rank != -1))
    torch.manual_seed(args.seed)
    os.makedirs(args.output_dir, exist_ok=True)

    if args.local_rank not in [-1, 0]:
        dist.barrier()
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))
    if args.local_rank == 0:
        dist.barrier()
    model.to(args.device)
    train(args, load_examples(args), model)


if __name__ == "__main__":
    main()
