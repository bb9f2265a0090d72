import torch
import torch.nn.functional as F
from accelerate import Accelerator, DistributedDataParallelKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_set, test_set, lr=0.1):
        self.accelerator = Accelerator(gradient_accumulation_steps=2, kwargs_handlers=[DistributedDataParallelKwargs(broadcast_buffers=True)])
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
        test_loader = DataLoader(test_set, batch_size=8)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=len(train_loader))
        self.average = {name: p.detach().clone() for name, p in model.named_parameters()}
        self.model, self.optimizer, self.train_loader, self.test_loader, self.scheduler = self.accelerator.prepare(model, optimizer, train_loader, test_loader, scheduler)

    def step(self, x, y):
        with self.accelerator.accumulate(self.model):
            loss = F.cross_entropy(self.model(x), y)
            self.accelerator.backward(loss)
            if self.accelerator.sync_gradients:
                self.accelerator.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad()
        return loss.detach()

    def update_average(self):
        for name, p in self.accelerator.unwrap_model(self.model).named_parameters():
            if name in self.average:
                self.average[name].lerp_(p.detach(), 0.01)

    def fit(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for x, y in self.train_loader:
                loss = self.step(x, y)
                self.update_average()
                if loss.item() < 1e-4:
                    self.accelerator.set_trigger()
                if self.accelerator.check_trigger():
                    break
            self.accelerator.print(epoch, self.evaluate())
            self.accelerator.save_state("state")

    def evaluate(self):
        self.model.eval()
        total = 0
        seen = 0
        for x, y in self.test_loader:
            with torch.no_grad():
                right = self.model(x).argmax(1) == y
            right = self.accelerator.gather_for_metrics(right)
            total += right.sum().item()
            seen += len(right)
        return total / seen

    def save(self, path):
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            torch.save({"model": self.accelerator.unwrap_model(self.model).state_dict(), "average": self.average}, path)


data = TensorDataset(torch.randn(101, 8), torch.randint(2, (101,)))
trainer = Trainer(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)), data, data)
trainer.fit(2)
trainer.save("model.pt")
