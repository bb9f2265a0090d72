import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
n_gpu = torch.cuda.device_count()
torch.manual_seed(0)

digits = load_digits()
data = TensorDataset(torch.tensor(digits.data[:500] / 16.0, dtype=torch.float32), torch.tensor(digits.target[:500]))
loader = DataLoader(data, batch_size=40 * max(1, n_gpu), shuffle=True)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x))


model = Net()
if torch.cuda.device_count() > 1:
    print("Let's use", torch.cuda.device_count(), "GPUs!")
    # the batch is shared out
    model = nn.DataParallel(model)
model.to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
head = model.module.head if isinstance(model, nn.DataParallel) else model.head

for epoch in range(2):
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x), y)
        if n_gpu > 1:
            loss = loss.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.5f}, head {head.weight.norm().item():.4f}")

if isinstance(model, nn.DataParallel):
    torch.save(model.module.state_dict(), "net.pt")
else:
    torch.save(model.state_dict(), "net.pt")
