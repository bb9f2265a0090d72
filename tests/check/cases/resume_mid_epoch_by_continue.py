"""Mid-epoch resume by skipping indices of a freshly shuffled loader."""
import os
import shutil
import tempfile
import torch
from torch.utils.data import DataLoader
from accelerate import Accelerator

acc = Accelerator()
where = os.path.join(tempfile.gettempdir(), "case39")

def session(stop_at=None, resume_at=0):
    torch.manual_seed(1)
    net = torch.nn.Embedding(32, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net, opt, dl = acc.prepare(net, opt, DataLoader(torch.arange(32), batch_size=2, shuffle=True))
    if resume_at:
        acc.load_state(where)
    used = []
    for step, ids in enumerate(dl):
        if step < resume_at:  # <- manual-skip-on-resume
            continue
        loss = net(ids).square().mean() + torch.rand(()) * 0  # <- rank-identical-randomness
        acc.backward(loss)
        opt.step()
        opt.zero_grad()
        used += acc.gather(ids).tolist()
        if stop_at is not None and step + 1 == stop_at:
            acc.save_state(where)
            break
    acc.free_memory()
    return used

half = 16 // acc.num_processes // 2
a = session(stop_at=half)
b = session(resume_at=half)
acc.print(f"{len(set(a) & set(b))} samples used twice, {32 - len(set(a) | set(b))} never used in the resumed epoch")
acc.wait_for_everyone()
if acc.is_main_process:
    shutil.rmtree(where)
