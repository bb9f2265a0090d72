"""A trainer that tells of each batch by callbacks kept in a defaultdict."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from trainer import Trainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 3)
    def forward(self, x, y=None):
        logits = self.fc(x)
        loss = None
        if y is not None:
            loss = F.cross_entropy(logits, y)
        return logits, loss

if __name__ == '__main__':
    torch.manual_seed(2)
    data = TensorDataset(torch.randn(200, 8), torch.randint(3, (200,)))
    model = Net()
    trainer = Trainer(model, data)

    def batch_end_callback(trainer):
        if trainer.iter_num % 5 == 0:
            print(f"iter {trainer.iter_num}: train loss {trainer.loss.item():.5f}")

    trainer.set_callback('on_batch_end', batch_end_callback)
    trainer.run()
    torch.save(model.state_dict(), "m.pt")
