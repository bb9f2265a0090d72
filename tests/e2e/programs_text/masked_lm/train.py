"""Masked tokens: labels -100, masking inside the collate function, accuracy on the masked ones."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(2)
device = "cuda" if torch.cuda.is_available() else "cpu"
V, T = 24, 10
data = [torch.randint(2, V, (T,)) for _ in range(90)]
val = [torch.randint(2, V, (T,)) for _ in range(22)]


def collate(batch):
    ids = torch.stack(batch)
    labels = ids.clone()
    masked = (ids + torch.arange(T)) % 4 == 0
    labels[~masked] = -100
    ids = ids.masked_fill(masked, 1)
    return {"input_ids": ids, "labels": labels}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(V, 16)
        self.pos = nn.Parameter(torch.zeros(T, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, V)

    def forward(self, input_ids, labels=None):
        h = self.layer(self.tok(input_ids) + self.pos)
        logits = self.head(h)
        if labels is None:
            return logits
        loss = F.cross_entropy(logits.view(-1, V), labels.view(-1))
        return loss, logits


train_loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)
val_loader = DataLoader(val, batch_size=8, collate_fn=collate)
model = Encoder().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(2):
    model.train()
    total = 0.0
    for batch in train_loader:
        input_ids = batch["input_ids"].to(device)
        labels = batch["labels"].to(device)
        optimizer.zero_grad()
        loss, _ = model(input_ids, labels=labels)
        loss.backward()
        optimizer.step()
        total += loss.item()
    model.eval()
    correct = n = 0
    val_loss = 0.0
    for batch in val_loader:
        input_ids = batch["input_ids"].to(device)
        labels = batch["labels"].to(device)
        with torch.no_grad():
            loss, logits = model(input_ids, labels=labels)
        mask = labels != -100
        correct += (logits.argmax(-1)[mask] == labels[mask]).sum().item()
        n += mask.sum().item()
        val_loss += loss.item()
    print(f"epoch {epoch} train {total / len(train_loader):.4f} val {val_loss / len(val_loader):.4f} acc {correct / n:.4f} ({n} masked)")
