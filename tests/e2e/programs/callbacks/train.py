import json
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class Callback:
    def on_train_begin(self, trainer): pass
    def on_epoch_end(self, trainer, epoch, logs): pass
    def on_batch_end(self, trainer, step, logs): pass


class History(Callback):
    def on_train_begin(self, trainer):
        self.batches = []
        self.epochs = []

    def on_batch_end(self, trainer, step, logs):
        self.batches.append(logs['loss'])

    def on_epoch_end(self, trainer, epoch, logs):
        self.epochs.append(logs)


class ModelCheckpoint(Callback):
    def __init__(self, path, monitor='val_loss'):
        self.path, self.monitor, self.best = path, monitor, float('inf')

    def on_epoch_end(self, trainer, epoch, logs):
        if logs[self.monitor] < self.best:
            self.best = logs[self.monitor]
            torch.save({'epoch': epoch, 'model': trainer.model.state_dict(), 'optim': trainer.optimizer.state_dict()}, self.path)
            print(f'saved at epoch {epoch}: {self.monitor}={self.best:.4f}')


class PrintLogs(Callback):
    def on_epoch_end(self, trainer, epoch, logs):
        print(f"[{epoch}] " + " ".join(f"{k}={v:.4f}" for k, v in logs.items()))


class BaseTrainer:
    def __init__(self, model, optimizer, device, callbacks=()):
        self.model = model.to(device)
        self.optimizer = optimizer
        self.device = device
        self.callbacks = list(callbacks)
        self.step = 0

    def notify(self, event, *args):
        for callback in self.callbacks:
            getattr(callback, event)(self, *args)

    def compute_loss(self, batch):
        raise NotImplementedError

    def to_device(self, batch):
        return tuple(t.to(self.device) for t in batch)

    def fit(self, train_loader, val_loader, epochs):
        self.notify('on_train_begin')
        for epoch in range(epochs):
            self.model.train()
            total, n = 0., 0
            for batch in train_loader:
                batch = self.to_device(batch)
                loss, metrics = self.compute_loss(batch)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step += 1
                total += loss.item() * len(batch[0])
                n += len(batch[0])
                self.notify('on_batch_end', self.step, {'loss': loss.item(), **metrics})
            logs = {'train_loss': total / n}
            logs.update(self.validate(val_loader))
            self.notify('on_epoch_end', epoch, logs)

    @torch.no_grad()
    def validate(self, loader):
        self.model.eval()
        losses, accs, count = 0., 0., 0
        for batch in loader:
            batch = self.to_device(batch)
            loss, metrics = self.compute_loss(batch)
            bs = batch[0].size(0)
            losses += loss.item() * bs
            accs += metrics['acc'] * bs
            count += bs
        return {'val_loss': losses / count, 'val_acc': accs / count}


class ClassificationTrainer(BaseTrainer):
    def compute_loss(self, batch):
        x, y = batch
        logits = self.model(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(1) == y).float().mean().item()
        return loss, {'acc': acc}


def main():
    torch.manual_seed(5)
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    x = torch.randn(170, 6)
    y = (x[:, 0] * x[:, 1] > 0).long()
    train_loader = DataLoader(TensorDataset(x[:120], y[:120]), batch_size=32, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[120:], y[120:]), batch_size=32)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.03)
    history = History()
    trainer = ClassificationTrainer(model, optimizer, device, [history, PrintLogs(), ModelCheckpoint('best.pt')])
    trainer.fit(train_loader, val_loader, epochs=3)
    with open('history.json', 'w') as f:
        json.dump({'batches': history.batches, 'epochs': history.epochs}, f, indent=2)


if __name__ == '__main__':
    main()
