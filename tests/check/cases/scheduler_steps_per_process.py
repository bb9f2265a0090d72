"""Total steps counted on the prepared loader, scheduler prepared as well."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator()
torch.manual_seed(0)
ds = TensorDataset(torch.randn(64, 2), torch.randn(64, 1))
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=1.0)
dl = acc.prepare(DataLoader(ds, batch_size=4))
total = 2 * len(dl)  # <- scheduler-length-mismatch
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: max(0.0, 1 - s / total))
net, opt, sched = acc.prepare(net, opt, sched)
lrs = []
for epoch in range(2):
    for x, y in dl:
        loss = torch.nn.functional.mse_loss(net(x), y)
        acc.backward(loss)
        opt.step()
        sched.step()
        opt.zero_grad()
        lrs.append(opt.param_groups[0]["lr"])
dead = sum(1 for v in lrs if v == 0.0)
acc.print(f"{len(lrs)} updates, lr half way {lrs[len(lrs) // 2 - 1]:.3f} (0.500 wanted), {dead} updates after lr hit zero")
