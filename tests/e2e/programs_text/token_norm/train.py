"""Loss summed over tokens, divided by the number of target tokens (annotated transformer)."""
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(4)
device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
PAD, V = 0, 15


class Copy(Dataset):
    def __init__(self, n):
        self.data = torch.randint(1, V, (n, 8))
        lengths = torch.randint(3, 9, (n, 1))
        self.data[torch.arange(8)[None] >= lengths] = PAD

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(V, 16)
        self.f = nn.GRU(16, 16, batch_first=True)
        self.o = nn.Linear(16, V)

    def forward(self, x):
        return self.o(self.f(self.e(x))[0])


class SimpleLossCompute:
    def __init__(self, criterion, opt=None):
        self.criterion = criterion
        self.opt = opt

    def __call__(self, x, y, norm):
        loss = self.criterion(x.reshape(-1, x.size(-1)), y.reshape(-1)) / norm
        if self.opt is not None:
            loss.backward()
            self.opt.step()
            self.opt.zero_grad()
        return loss.item() * norm


def run_epoch(data_iter, model, loss_compute):
    start = time.time()
    total_tokens = 0
    total_loss = 0
    tokens = 0
    for i, batch in enumerate(data_iter):
        batch = batch.to(device)
        src, trg = batch[:, :-1], batch[:, 1:]
        ntokens = (trg != PAD).sum().item()
        out = model(src)
        loss = loss_compute(out, trg, ntokens)
        total_loss += loss
        total_tokens += ntokens
        tokens += ntokens
        if i % 2 == 1:
            print(f"Epoch Step: {i} Loss: {loss / ntokens:.5f} tokens {tokens}")
            start = time.time()
            tokens = 0
    return total_loss / total_tokens


criterion = nn.CrossEntropyLoss(ignore_index=PAD, reduction="sum")
model = LM().to(device)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
train_dl = DataLoader(Copy(70), batch_size=16, shuffle=True)
for epoch in range(2):
    model.train()
    print("train", run_epoch(train_dl, model, SimpleLossCompute(criterion, opt)))
