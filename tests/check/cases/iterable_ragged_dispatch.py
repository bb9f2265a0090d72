"""Streaming dataset, every batch padded to its own width."""
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

class Lines(IterableDataset):
    def __iter__(self):
        g = torch.Generator().manual_seed(0)
        for _ in range(24):
            n = int(torch.randint(2, 12, (1,), generator=g))
            yield torch.randint(1, 30, (n,), generator=g)

acc = Accelerator(dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Embedding(30, 6), torch.nn.Linear(6, 30))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
dl = DataLoader(Lines(), batch_size=3, collate_fn=lambda rows: pad_sequence(rows, batch_first=True))  # <- iterable-dispatch-ragged
net, opt, dl = acc.prepare(net, opt, dl)
for step, ids in enumerate(dl):
    loss = torch.nn.functional.cross_entropy(net(ids).flatten(0, 1), ids.flatten(), ignore_index=0)
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
acc.print(f"{step + 1} steps, loss {loss.item():.4f}")
