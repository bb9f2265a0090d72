"""gather() keeps the rows that were repeated to make the last batch even."""
import torch
from torch.utils.data import DataLoader
from accelerate import Accelerator

N = 21
acc = Accelerator()
loader = acc.prepare(DataLoader(torch.arange(N), batch_size=4))
collected = []
for ids in loader:
    score = (ids % 7 == 0).float()
    collected.append(acc.gather(torch.stack([ids.float(), score], dim=1)))  # <- use-gather-for-metrics
table = torch.cat(collected)
twice = len(table) - len(table[:, 0].unique())
acc.print(f"{len(table)} rows for {N} samples, {twice} duplicates, mean {table[:, 1].mean().item():.4f} (true 0.1429)")
