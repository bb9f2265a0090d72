"""Each rank evaluates its shard; the main process prints its own share as the result."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator()
torch.manual_seed(0)
x = torch.randn(50, 1)
y = (x[:, 0] > 0).long()
y[::4] = 1 - y[::4]
net = torch.nn.Linear(1, 2)
with torch.no_grad():
    net.weight.copy_(torch.tensor([[-1.0], [1.0]]))
    net.bias.zero_()
net, val = acc.prepare(net, DataLoader(TensorDataset(x, y), batch_size=4))
net.eval()
correct = count = 0
with torch.no_grad():
    for xb, yb in val:
        correct += (net(xb).argmax(1) == yb).sum().item()  # <- metric-without-gather
        count += yb.numel()
acc.print(f"accuracy {correct / count:.4f} on {count} samples; the set has {len(y)}")
