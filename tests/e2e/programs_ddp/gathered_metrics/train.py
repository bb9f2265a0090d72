import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def gather_tensor(tensor):
    parts = [torch.zeros_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


def is_main_process():
    return not dist.is_initialized() or dist.get_rank() == 0


def evaluate(model, loader, device):
    model.eval()
    outputs, targets = [], []
    correct = torch.zeros(1, device=device)
    total = torch.zeros(1, device=device)
    worst = torch.zeros(1, device=device)
    with torch.no_grad():
        for x, y in loader:
            logits = model(x.to(device))
            correct += (logits.argmax(1) == y.to(device)).sum()
            total += y.numel()
            worst = torch.maximum(worst, F.cross_entropy(logits, y.to(device)).reshape(1))
            outputs.append(logits.argmax(1))
            targets.append(y.to(device))
    dist.all_reduce(correct, op=dist.ReduceOp.SUM)
    dist.all_reduce(total)
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    predictions = gather_tensor(torch.cat(outputs))
    labels = gather_tensor(torch.cat(targets))
    names = [None for _ in range(dist.get_world_size())]
    dist.all_gather_object(names, {"rows": len(targets)})
    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (labels.cpu().numpy(), predictions.cpu().numpy()), 1)
    return (correct / total).item(), confusion, sum(n["rows"] for n in names), worst.item()


def main():
    dist.init_process_group("gloo", init_method="env://", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    device = torch.device("cpu")
    seed = torch.tensor([dist.get_rank() + 4])
    dist.broadcast(seed, src=0)
    torch.manual_seed(seed.item())
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16.0, dtype=torch.float32), torch.tensor(digits.target)
    train_set, test_set = TensorDataset(x[:480], y[:480]), TensorDataset(x[480:720], y[480:720])
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=24, sampler=train_sampler)
    test_loader = DataLoader(test_set, batch_size=24, sampler=DistributedSampler(test_set, shuffle=False))
    model = DDP(nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10)).to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        train_sampler.set_epoch(epoch)
        model.train()
        for inputs, labels in train_loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(inputs.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        accuracy, confusion, batches, worst = evaluate(model, test_loader, device)
        if is_main_process():
            print(f"epoch {epoch} accuracy {accuracy:.4f} trace {np.trace(confusion)} of {confusion.sum()} worst {worst:.4f}")
            np.save("confusion.npy", confusion)
    dist.barrier()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
