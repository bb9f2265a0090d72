"""The number of updates is computed before prepare() and used as the stop rule."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

NUM_EPOCHS = 3
acc = Accelerator()
torch.manual_seed(0)
train_dl = DataLoader(TensorDataset(torch.randn(48, 2), torch.randn(48, 1)), batch_size=4, shuffle=True)
max_steps = NUM_EPOCHS * len(train_dl)  # <- length-before-prepare
net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
net, opt, train_dl = acc.prepare(net, opt, train_dl)
done, epoch = 0, 0
while done < max_steps:
    for x, y in train_dl:
        loss = torch.nn.functional.mse_loss(net(x), y)
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        done += 1
        if done == max_steps:
            break
    epoch += 1
acc.print(f"asked for {NUM_EPOCHS} epochs, ran {epoch} ({done} updates of {4 * acc.num_processes} samples)")
