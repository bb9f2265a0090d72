"""A character model in the manner of the lectures: get_batch() from one long text, the loss estimated now and then."""

import torch
import torch.nn as nn
from torch.nn import functional as F

batch_size, block_size, eval_iters = 10, 12, 4
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)

text = "the quick brown fox jumps over the lazy dog and runs away from the angry bear. " * 30
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)
n = int(0.9 * len(data))
train_data, val_data = data[:n], data[n:]


def get_batch(split):
    source = train_data if split == "train" else val_data
    ix = torch.randint(len(source) - block_size, (batch_size,))
    x = torch.stack([source[i : i + block_size] for i in ix])
    y = torch.stack([source[i + 1 : i + block_size + 1] for i in ix])
    return x.to(device), y.to(device)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            logits, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


class CharacterModel(nn.Module):
    def __init__(self, vocabulary, width=24):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(block_size, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets=None):
        B, T = idx.shape
        x = self.tokens(idx) + self.places(torch.arange(T, device=idx.device))
        weights = torch.tril(torch.ones(T, T, device=idx.device))
        x = x + self.mix((weights / weights.sum(1, keepdim=True)) @ x)
        logits = self.head(F.relu(x))
        if targets is None:
            return logits, None
        B, T, C = logits.shape
        loss = F.cross_entropy(logits.view(B * T, C), targets.view(B * T))
        return logits, loss

    def generate(self, idx, length):
        for _ in range(length):
            logits, _ = self(idx[:, -block_size:])
            idx = torch.cat((idx, logits[:, -1, :].argmax(-1, keepdim=True)), dim=1)
        return idx


model = CharacterModel(len(chars))
m = model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

for step in range(30):
    if step % 10 == 0:
        losses = estimate_loss()
        print(f"step {step}: train {losses['train']:.4f}, val {losses['val']:.4f}")
    xb, yb = get_batch("train")
    logits, loss = model(xb, yb)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()

print(f"last {loss.item():.4f}")
context = torch.zeros((1, 1), dtype=torch.long, device=device)
print("".join(chars[i] for i in m.generate(context, 8)[0].tolist()))
torch.save(model.state_dict(), "characters.pt")
