import torch


def build_optimizer(model, name, **kwargs):
    decay, no_decay = [], []
    for n, p in model.named_parameters():
        (no_decay if p.ndim <= 1 else decay).append(p)
    groups = [{"params": decay, "weight_decay": 1e-4}, {"params": no_decay, "weight_decay": 0.0}]
    return getattr(torch.optim, name)(groups, **kwargs)


def build_scheduler(optimizer, name, t_max):
    if name == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=t_max)
    raise ValueError(name)
