import torch.nn.functional as F


def nll(output, target):
    return F.nll_loss(output, target)
