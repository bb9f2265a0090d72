"""An autoencoder whose code is the nearest vector of a codebook."""

import torch
import torch.nn.functional as F
from codebook import Codebook
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
        self.codebook = Codebook(12, 6)
        self.decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 64))

    def forward(self, x):
        z, commitment, index = self.codebook(self.encoder(x))
        return self.decoder(z), commitment, index


def main():
    torch.manual_seed(11)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    images = torch.tensor(load_digits().data[:300] / 16, dtype=torch.float32)
    train_loader = DataLoader(TensorDataset(images[:230]), batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(images[230:]), batch_size=32)
    model = Autoencoder().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        model.train()
        stats = dict(loss=0.0, steps=0)
        for (x,) in train_loader:
            x = x.to(device)
            optimizer.zero_grad()
            out, commitment, _ = model(x)
            reconstruction = F.mse_loss(out, x)
            loss = reconstruction + 0.25 * commitment
            loss.backward()
            optimizer.step()
            logs = dict(loss=loss.detach(), root=reconstruction.detach().sqrt())
            stats["loss"] += logs["loss"].item()
            stats["steps"] += 1
        model.eval()
        usage = torch.zeros(12)
        with torch.no_grad():
            for (x,) in test_loader:
                _, _, index = model(x.to(device))
                usage += torch.bincount(index, minlength=12).float().cpu()
        book = model.codebook
        print(f"epoch {epoch}: loss {stats['loss'] / stats['steps']:.5f} root {logs['root'].item():.5f}")
        print(f"seen {book.seen.item()} counts {book.counts.sum().item():.4f} used {int((usage > 0).sum())}")
    torch.save(model.state_dict(), "codebook.pt")


if __name__ == "__main__":
    main()
