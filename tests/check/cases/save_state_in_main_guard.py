"""Writes the full training state, but only from the main process."""
import os
import tempfile
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

acc = Accelerator()
torch.manual_seed(0)
ds = TensorDataset(torch.randn(32, 3), torch.randn(32, 1))
m = torch.nn.Linear(3, 1)
o = torch.optim.AdamW(m.parameters(), lr=1e-2)
m, o, d = acc.prepare(m, o, DataLoader(ds, batch_size=4, shuffle=True))
out = os.path.join(tempfile.gettempdir(), f"case09_{acc.num_processes}")
for epoch in range(2):
    for x, y in d:
        loss = (m(x) - y).square().mean()
        acc.backward(loss)
        o.step()
        o.zero_grad()
    acc.print(f"epoch {epoch} loss {loss.item():.4f}")
    if acc.is_main_process:
        acc.save_state(out)  # <- collective-in-rank-guard
acc.wait_for_everyone()
if acc.is_main_process:
    names = sorted(n for n in os.listdir(out) if n.startswith("random_states"))
    print(f"{acc.num_processes} processes, rng files: {names}")
