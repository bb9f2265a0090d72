import argparse
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Subset, TensorDataset


def update_ema_variables(model, ema_model, alpha, global_step):
    alpha = min(1 - 1 / (global_step + 1), alpha)
    for ema_param, param in zip(ema_model.parameters(), model.parameters()):
        ema_param.data.mul_(alpha).add_(param.data, alpha=1 - alpha)


def create_model(ema=False):
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).cuda() if torch.cuda.is_available() else \
        nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    if ema:
        for param in model.parameters():
            param.detach_()
    return model


def evaluate(model, loader, device):
    model.eval()
    correct, loss_sum, n = 0, 0.0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss_sum += F.cross_entropy(out, y, reduction='sum').item()
            correct += out.argmax(1).eq(y).sum().item()
            n += y.shape[0]
    return loss_sum / n, correct / n


def main(args):
    torch.manual_seed(args.seed)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    labeled = DataLoader(TensorDataset(x[:100], y[:100]), batch_size=16, shuffle=True)
    unlabeled = DataLoader(TensorDataset(x[100:330]), batch_size=32, shuffle=True)
    val = DataLoader(TensorDataset(x[330:450], y[330:450]), batch_size=50)
    student = create_model()
    teacher = create_model(ema=True)
    teacher.load_state_dict(student.state_dict())
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    global_step = 0
    for epoch in range(args.epochs):
        student.train()
        teacher.train()
        sup_total, cons_total = 0.0, 0.0
        for (xl, yl), (xu,) in zip(labeled, unlabeled):
            xl, yl, xu = xl.to(device), yl.to(device), xu.to(device)
            noise = torch.randn(xu.size()).to(device) * 0.1
            sup = F.cross_entropy(student(xl), yl)
            with torch.no_grad():
                target = F.softmax(teacher(xu), dim=1)
            cons = F.mse_loss(F.softmax(student(xu + noise), dim=1), target)
            loss = sup + args.weight * cons
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            global_step += 1
            update_ema_variables(student, teacher, args.ema_decay, global_step)
            sup_total += sup.item()
            cons_total += cons.item()
        loss_s, acc_s = evaluate(student, val, device)
        loss_t, acc_t = evaluate(teacher, val, device)
        print(f'epoch {epoch} sup {sup_total:.4f} cons {cons_total:.6f} student {loss_s:.4f}/{acc_s:.3f} teacher {loss_t:.4f}/{acc_t:.3f}')
    torch.save({'student': student.state_dict(), 'teacher': teacher.state_dict(), 'args': vars(args)}, 'mt.pt')


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--epochs', type=int, default=2)
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--weight', type=float, default=5.0)
    p.add_argument('--ema-decay', type=float, default=0.9)
    main(p.parse_args())
