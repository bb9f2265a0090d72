"""zero_grad() kept where the single-GPU loop had it: at the top of the body."""
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator(gradient_accumulation_steps=4)
xs = torch.arange(1.0, 17.0).reshape(16, 1)
w = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(w.weight)
opt = torch.optim.SGD(w.parameters(), lr=1.0)
w, opt, dl = acc.prepare(w, opt, DataLoader(TensorDataset(xs), batch_size=1))
for (x,) in dl:
    with acc.accumulate(w):
        opt.zero_grad()  # <- zero-grad-before-backward-in-accumulate
        loss = w(x).mean()
        acc.backward(loss)
        opt.step()
got = acc.unwrap_model(w).weight.item()
want = -xs.mean().item() * (16 / 4 / acc.num_processes)
acc.print(f"weight {got:.3f}, full accumulation would give {want:.3f}")
