"""state_dict of the prepared model goes to disk, a bare model reads it."""
import os
import tempfile
import torch
from torch.utils.data import DataLoader, TensorDataset
from accelerate import Accelerator

def build():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))

acc = Accelerator()
torch.manual_seed(0)
net = build()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
net, opt, dl = acc.prepare(net, opt, DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 1)), batch_size=4))
for x, y in dl:
    loss = (net(x) - y).abs().mean()
    acc.backward(loss)
    opt.step()
    opt.zero_grad()
path = os.path.join(tempfile.gettempdir(), "case35.pt")
if acc.is_main_process:
    torch.save(net.state_dict(), path)  # <- save-without-unwrap
    report = build().load_state_dict(torch.load(path), strict=False)
    print(f"{acc.num_processes} process(es): {len(report.missing_keys)} keys missing on reload, e.g. {report.unexpected_keys[:1]}")
acc.wait_for_everyone()
