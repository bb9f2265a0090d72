from collections import defaultdict

import torch
from torch.utils.data import DataLoader


class Trainer:
    def __init__(self, model, dataset, lr=0.1):
        self.model = model
        self.optimizer = None
        self.callbacks = defaultdict(list)
        self.train_dataset = dataset
        self.device = 'cuda' if torch.cuda.is_available() else 'cpu'
        self.model = self.model.to(self.device)
        self.iter_num = 0
        self.lr = lr

    def add_callback(self, onevent, callback):
        self.callbacks[onevent].append(callback)

    def set_callback(self, onevent, callback):
        self.callbacks[onevent] = [callback]

    def trigger_callbacks(self, onevent):
        for callback in self.callbacks.get(onevent, []):
            callback(self)

    def run(self):
        model = self.model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=self.lr)
        loader = DataLoader(self.train_dataset, shuffle=True, batch_size=33)
        model.train()
        data_iter = iter(loader)
        while True:
            try:
                batch = next(data_iter)
            except StopIteration:
                data_iter = iter(loader)
                batch = next(data_iter)
            batch = [t.to(self.device) for t in batch]
            x, y = batch
            _, self.loss = model(x, y)
            model.zero_grad(set_to_none=True)
            self.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            self.optimizer.step()
            self.trigger_callbacks('on_batch_end')
            self.iter_num += 1
            if self.iter_num >= 20:
                break
