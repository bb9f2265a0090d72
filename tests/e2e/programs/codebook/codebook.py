"""Vectors that stand for groups of rows; each is the running mean of its group."""

import torch
import torch.nn.functional as F
from torch import nn


class Codebook(nn.Module):
    def __init__(self, size, dim, decay=0.9, eps=1e-5):
        super().__init__()
        self.size, self.decay, self.eps = size, decay, eps
        vectors = torch.randn(size, dim)
        self.register_buffer("vectors", vectors)
        self.register_buffer("counts", torch.ones(size))
        self.register_buffer("sums", vectors.clone())
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, z):
        distances = z.pow(2).sum(1, keepdim=True) - 2 * z @ self.vectors.t() + self.vectors.pow(2).sum(1)
        index = distances.argmin(dim=1)
        chosen = F.one_hot(index, self.size).type(z.dtype)
        quantized = chosen @ self.vectors
        if self.training:
            with torch.no_grad():
                self.seen += z.shape[0]
                self.counts.mul_(self.decay).add_(chosen.sum(0), alpha=1 - self.decay)
                self.sums.mul_(self.decay).add_(chosen.t() @ z, alpha=1 - self.decay)
                total = self.counts.sum()
                smooth = (self.counts + self.eps) / (total + self.size * self.eps) * total
                self.vectors.copy_(self.sums / smooth.unsqueeze(1))
        commitment = F.mse_loss(z, quantized.detach())
        return z + (quantized - z).detach(), commitment, index
