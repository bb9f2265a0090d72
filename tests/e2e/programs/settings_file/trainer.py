import torch


class Averages:
    def __init__(self, *names):
        self.sums = dict.fromkeys(names, 0.0)
        self.counts = dict.fromkeys(names, 0)

    def update(self, name, value, n=1):
        self.sums[name] += value * n
        self.counts[name] += n

    def result(self):
        return {name: self.sums[name] / self.counts[name] for name in self.sums}


class Trainer:
    def __init__(self, model, criterion, metrics, optimizer, device, loader, held_out=None, scheduler=None):
        self.model, self.criterion, self.metrics = model, criterion, metrics
        self.optimizer, self.scheduler = optimizer, scheduler
        self.device = device
        self.loader, self.held_out = loader, held_out

    def train(self, epochs):
        for epoch in range(epochs):
            figures = self.epoch()
            figures.update({f"held out {name}": value for name, value in self.validate().items()})
            if self.scheduler is not None:
                self.scheduler.step()
            print(f"epoch {epoch} of {self.loader.samples} samples:", ", ".join(f"{k} {v:.5f}" for k, v in figures.items()))
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, "settings.pt")

    def epoch(self):
        averages = Averages("loss", *[m.__name__ for m in self.metrics])
        self.model.train()
        for number, (x, y) in enumerate(self.loader):
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            output = self.model(x)
            loss = self.criterion(output, y)
            loss.backward()
            self.optimizer.step()
            averages.update("loss", loss.item())
            for metric in self.metrics:
                averages.update(metric.__name__, metric(output, y))
        return averages.result()

    def validate(self):
        averages = Averages("loss", *[m.__name__ for m in self.metrics])
        self.model.eval()
        with torch.no_grad():
            for x, y in self.held_out:
                x, y = x.to(self.device), y.to(self.device)
                output = self.model(x)
                averages.update("loss", self.criterion(output, y).item())
                for metric in self.metrics:
                    averages.update(metric.__name__, metric(output, y))
        return averages.result()
