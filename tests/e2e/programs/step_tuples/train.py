import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import classification_report
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(bs):
    d = load_digits()
    x, y = torch.tensor(d.data / 16).float(), torch.tensor(d.target)
    cut = [300, 400, 450]
    parts = [TensorDataset(x[a:b], y[a:b]) for a, b in zip([0] + cut, cut)]
    return [DataLoader(p, batch_size=bs, shuffle=i == 0) for i, p in enumerate(parts)]


class EarlyStopper:
    def __init__(self, patience=1, min_delta=0):
        self.patience, self.min_delta, self.counter, self.min_loss = patience, min_delta, 0, np.inf

    def early_stop(self, loss):
        if loss < self.min_loss:
            self.min_loss = loss
            self.counter = 0
        elif loss > self.min_loss + self.min_delta:
            self.counter += 1
            return self.counter >= self.patience
        return False


def loss_batch(model, loss_func, xb, yb, opt=None):
    loss = loss_func(model(xb), yb)
    if opt is not None:
        loss.backward()
        opt.step()
        opt.zero_grad()
    return loss.item(), len(xb)


def fit(epochs, model, loss_func, opt, sched, train_dl, valid_dl, dev):
    stopper = EarlyStopper(patience=2)
    for epoch in range(epochs):
        model.train()
        for xb, yb in train_dl:
            loss_batch(model, loss_func, xb.to(dev), yb.to(dev), opt)
        model.eval()
        with torch.no_grad():
            losses, nums = zip(*[loss_batch(model, loss_func, xb.to(dev), yb.to(dev)) for xb, yb in valid_dl])
        val_loss = np.sum(np.multiply(losses, nums)) / np.sum(nums)
        sched.step(val_loss)
        print(epoch, val_loss, opt.param_groups[0]['lr'])
        if stopper.early_stop(val_loss):
            print('stop')
            break


torch.manual_seed(0)
dev = torch.device('cuda') if torch.cuda.is_available() else torch.device('cpu')
train_dl, valid_dl, test_dl = get_loaders(48)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to(dev)
opt = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
sched = optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0)
fit(5, model, nn.functional.cross_entropy, opt, sched, train_dl, valid_dl, dev)

y_pred, y_true = [], []
model.eval()
for xb, yb in test_dl:
    with torch.no_grad():
        out = model(xb.to(dev))
    y_pred += out.argmax(dim=1).tolist()
    y_true += yb.tolist()
print(classification_report(y_true, y_pred, zero_division=0))
