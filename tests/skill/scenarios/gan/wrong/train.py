import torch
import torch.nn as nn
from accel_runtime import Accelerator, set_seed
from torch.utils.data import DataLoader, TensorDataset

Z = 4


def main(epochs=2):
    accelerator = Accelerator(split_batches=True)
    device = accelerator.device
    set_seed(9)
    real = torch.randn(90, 2) * 0.3 + torch.tensor([1.0, -1.0])
    loader = DataLoader(TensorDataset(real), batch_size=16, shuffle=True)
    G = nn.Sequential(nn.Linear(Z, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
    D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    G, D, opt_g, opt_d, loader = accelerator.prepare(G, D, opt_g, opt_d, loader)
    fixed = torch.randn(6, Z, device=device)
    for epoch in range(epochs):
        for (x,) in loader:
            n = x.size(0)
            ones, zeros = torch.ones(n, 1, device=device), torch.zeros(n, 1, device=device)
            fake = G(torch.randn(n, Z, device=device))
            d_loss = bce(D(x), ones) + bce(D(fake.detach()), zeros)
            opt_d.zero_grad()
            accelerator.backward(d_loss)
            opt_d.step()
            g_loss = bce(D(fake), ones)
            opt_g.zero_grad()
            accelerator.backward(g_loss)
            opt_g.step()
        accelerator.print(f"epoch {epoch}: D {d_loss.item():.4f} G {g_loss.item():.4f}")
        with torch.no_grad():
            accelerator.save(G(fixed).cpu(), f"samples_{epoch}.pt")
    accelerator.save({"G": G.state_dict(), "D": D.state_dict()}, "gan.pt")


if __name__ == "__main__":
    main()
