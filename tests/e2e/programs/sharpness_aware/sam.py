"""Sharpness-aware minimisation: an optimizer that holds another one, and steps twice for a batch."""

import torch


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_class, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base = base_class(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        gradients = [p.grad.norm() for group in self.param_groups for p in group["params"]]
        norm = torch.stack(gradients).norm() + 1e-12
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["before"] = p.clone()
                p.add_(p.grad * group["rho"] / norm)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["before"])
        self.base.step()
