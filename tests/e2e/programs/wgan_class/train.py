import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class WGAN:
    def __init__(self, netG, netD, nz=4, clip=0.05, n_critic=3, device=None):
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.netG = netG.to(self.device)
        self.netD = netD.to(self.device)
        self.opt_g = optim.RMSprop(self.netG.parameters(), lr=1e-3)
        self.opt_d = optim.RMSprop(self.netD.parameters(), lr=1e-3)
        self.nz, self.clip, self.n_critic = nz, clip, n_critic

    def sample_noise(self, n):
        return torch.randn(n, self.nz).to(self.device)

    def critic_step(self, real):
        self.opt_d.zero_grad()
        fake = self.netG(self.sample_noise(real.size(0))).detach()
        loss = self.netD(fake).mean() - self.netD(real).mean()
        loss.backward()
        self.opt_d.step()
        for p in self.netD.parameters():
            p.data.clamp_(-self.clip, self.clip)
        return -loss.item()

    def generator_step(self, n):
        self.opt_g.zero_grad()
        loss = -self.netD(self.netG(self.sample_noise(n))).mean()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def fit(self, loader, epochs):
        history = {"w": [], "g": []}
        for epoch in range(epochs):
            it = iter(loader)
            step = 0
            while step < len(loader):
                for _ in range(self.n_critic):
                    if step >= len(loader):
                        break
                    real = next(it)[0].to(self.device)
                    w = self.critic_step(real)
                    step += 1
                g = self.generator_step(real.size(0))
                history["w"].append(w)
                history["g"].append(g)
            print(f"epoch {epoch + 1}: wasserstein {history['w'][-1]:.5f} generator {sum(history['g']) / len(history['g']):.5f}")
        return history


if __name__ == "__main__":
    torch.manual_seed(11)
    data = torch.randn(110, 5) + 1
    loader = DataLoader(TensorDataset(data), batch_size=16, shuffle=True)
    gan = WGAN(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 5)), nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)))
    history = gan.fit(loader, 3)
    torch.save({"g": gan.netG.state_dict(), "d": gan.netD.state_dict(), "history": history}, "wgan.pth")
