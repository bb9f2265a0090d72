import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

Z = 4


def main(device, epochs=2):
    torch.manual_seed(9)
    real = torch.randn(90, 2) * 0.3 + torch.tensor([1.0, -1.0])
    loader = DataLoader(TensorDataset(real), batch_size=16, shuffle=True)
    G = nn.Sequential(nn.Linear(Z, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2)).to(device)
    D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    fixed = torch.randn(6, Z, device=device)
    for epoch in range(epochs):
        for (x,) in loader:
            x = x.to(device)
            n = x.size(0)
            ones, zeros = torch.ones(n, 1, device=device), torch.zeros(n, 1, device=device)
            fake = G(torch.randn(n, Z, device=device))
            d_loss = bce(D(x), ones) + bce(D(fake.detach()), zeros)
            opt_d.zero_grad()
            d_loss.backward()
            opt_d.step()
            g_loss = bce(D(fake), ones)
            opt_g.zero_grad()
            g_loss.backward()
            opt_g.step()
        print(f"epoch {epoch}: D {d_loss.item():.4f} G {g_loss.item():.4f}")
        with torch.no_grad():
            torch.save(G(fixed).cpu(), f"samples_{epoch}.pt")
    torch.save({"G": G.state_dict(), "D": D.state_dict()}, "gan.pt")


if __name__ == "__main__":
    main("cuda" if torch.cuda.is_available() else "cpu")
