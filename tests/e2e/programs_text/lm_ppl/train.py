"""A tiny language model on a character corpus, perplexity per epoch."""
import math
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

VOCAB, SEQ, BATCH, EPOCHS, CLIP = 20, 12, 16, 3, 0.25


class CharDataset(Dataset):
    def __init__(self, data, seq_len):
        self.data = data
        self.seq_len = seq_len

    def __len__(self):
        return (len(self.data) - 1) // self.seq_len

    def __getitem__(self, idx):
        start = idx * self.seq_len
        chunk = self.data[start : start + self.seq_len + 1]
        return chunk[:-1], chunk[1:]


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim=16, hidden=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocab)

    def forward(self, x, hidden=None):
        out, hidden = self.rnn(self.emb(x), hidden)
        return self.head(out), hidden


corpus = (torch.arange(1200) * 7 % VOCAB + torch.randint(0, 3, (1200,))) % VOCAB
train_loader = DataLoader(CharDataset(corpus[:1000], SEQ), batch_size=BATCH, shuffle=True)
val_loader = DataLoader(CharDataset(corpus[1000:], SEQ), batch_size=BATCH)

model = LanguageModel(VOCAB).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)


def evaluate(loader):
    model.eval()
    total_loss, total_tokens = 0.0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            logits, _ = model(inputs)
            loss = criterion(logits.view(-1, VOCAB), targets.view(-1))
            total_loss += loss.item() * targets.numel()
            total_tokens += targets.numel()
    return total_loss / total_tokens


best_val = float("inf")
for epoch in range(1, EPOCHS + 1):
    model.train()
    start = time.time()
    total_loss = 0.0
    n_tokens = 0
    for i, (inputs, targets) in enumerate(train_loader):
        inputs = inputs.to(device)
        targets = targets.to(device)
        optimizer.zero_grad()
        logits, _ = model(inputs)
        loss = criterion(logits.reshape(-1, VOCAB), targets.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        total_loss += loss.item()
        n_tokens += inputs.numel()
        if i % 2 == 0:
            print(f"| epoch {epoch} | {i:3d}/{len(train_loader)} batches | loss {loss.item():5.4f} | ppl {math.exp(loss.item()):8.3f}")
    val_loss = evaluate(val_loader)
    scheduler.step(val_loss)
    elapsed = time.time() - start
    print("-" * 60)
    print(f"epoch {epoch} train {total_loss / len(train_loader):.4f} tokens {n_tokens} valid {val_loss:.4f} ppl {math.exp(val_loss):.3f} lr {optimizer.param_groups[0]['lr']}")
    if val_loss < best_val:
        with open("model.pt", "wb") as f:
            torch.save(model, f)
        best_val = val_loss

with open("model.pt", "rb") as f:
    model = torch.load(f, weights_only=False)
test_loss = evaluate(val_loader)
print(f"| End of training | test loss {test_loss:.4f} | test ppl {math.exp(test_loss):.3f}")
