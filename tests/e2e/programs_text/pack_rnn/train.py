"""Sorted, packed sequences, a collate object with lengths, per-token and per-sequence accuracy, seq-first model."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Seqs(Dataset):
    def __init__(self, n):
        self.items = [torch.randint(1, 12, (int(k),)) for k in torch.randint(2, 9, (n,))]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i], self.items[i] % 3


class PadCollate:
    def __init__(self, pad=0):
        self.pad = pad

    def __call__(self, batch):
        batch.sort(key=lambda b: len(b[0]), reverse=True)
        xs, ys = zip(*batch)
        lengths = torch.tensor([len(x) for x in xs])
        return pad_sequence(xs, batch_first=True, padding_value=self.pad), pad_sequence(ys, batch_first=True, padding_value=-1), lengths


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(16, 3)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.emb(x), lengths.cpu(), batch_first=True, enforce_sorted=True)
        out, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))
        return self.fc(out)


train = DataLoader(Seqs(50), batch_size=12, shuffle=True, collate_fn=PadCollate())
val = DataLoader(Seqs(19), batch_size=12, collate_fn=PadCollate())
model = Tagger().to(device)
crit = nn.CrossEntropyLoss(ignore_index=-1)
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(2):
    model.train()
    loss_sum, tok = 0.0, 0
    for x, y, lengths in train:
        x, y = x.to(device), y.to(device)
        out = model(x, lengths)
        loss = crit(out.view(-1, 3), y.view(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        n = lengths.sum().item()
        loss_sum += loss.item() * n
        tok += n
    model.eval()
    right = seqs = total = 0
    with torch.no_grad():
        for x, y, lengths in val:
            x, y = x.to(device), y.to(device)
            pred = model(x, lengths).argmax(-1)
            mask = y != -1
            right += ((pred == y) & mask).sum().item()
            seqs += ((pred == y) | ~mask).all(1).sum().item()
            total += int(lengths.sum())
    print(f"epoch {epoch} loss {loss_sum / tok:.4f} token acc {right / total:.4f} ({right}/{total}) sequences {seqs}")
