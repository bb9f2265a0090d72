"""No loader: the next batch is fetched before the step of this one; a class that hands out batches; batches given to the model at once."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(11)
BATCH, LENGTH = 9, 8
device = "cuda" if torch.cuda.is_available() else "cpu"
stream = torch.randint(0, 20, (900,))


def get_batch():
    starts = torch.randint(len(stream) - LENGTH, (BATCH,))
    x = torch.stack([stream[i : i + LENGTH] for i in starts])
    y = torch.stack([stream[i + 1 : i + 1 + LENGTH] for i in starts])
    return x.to(device), y.to(device)


class Reader:
    """Goes through the stream, from the start again at its end."""

    def __init__(self, rows):
        self.rows = rows
        self.position = 0

    def next_batch(self):
        piece = stream[self.position : self.position + self.rows * LENGTH + 1]
        self.position += self.rows * LENGTH
        if self.position + self.rows * LENGTH + 1 > len(stream):
            self.position = 0
        return piece[:-1].view(self.rows, LENGTH), piece[1:].view(self.rows, LENGTH)


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.mix = nn.Conv1d(16, 16, 3, padding=2)
        self.head = nn.Linear(16, 20)

    def crop(self, length):
        self.length = length

    def forward(self, tokens, targets):
        hidden = self.mix(self.embedding(tokens).transpose(1, 2))[..., : tokens.size(1)]
        logits = self.head(F.relu(hidden).transpose(1, 2))
        return logits, F.cross_entropy(logits.reshape(-1, 20), targets.reshape(-1))


model = Tokens().to(device)
model.crop(LENGTH)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

X, Y = get_batch()
print("a batch has", tuple(X.shape))
for step in range(12):
    for micro in range(2):
        logits, loss = model(X, Y)
        loss = loss / 2
        X, Y = get_batch()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 3 == 0:
        print(f"step {step} loss {loss.item() * 2:.5f}")

reader = Reader(7)
for step in range(6):
    x, y = reader.next_batch()
    _, loss = model(x.to(device), y.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"reader {step} loss {loss.item():.5f}")

for step in range(4):
    optimizer.zero_grad()
    loss = model(*get_batch())[1]
    loss.backward()
    optimizer.step()
print(f"last {loss.item():.5f}")
torch.save(model.state_dict(), "prefetched.pt")
