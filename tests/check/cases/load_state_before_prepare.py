"""load_state() runs before anything was prepared, so it restores nothing."""
import os
import shutil
import tempfile
import torch
from accelerate import Accelerator

where = os.path.join(tempfile.gettempdir(), "case37")
acc = Accelerator()
torch.manual_seed(acc.process_index)
first = torch.nn.Linear(2, 2)
first, opt = acc.prepare(first, torch.optim.SGD(first.parameters(), lr=0.1))
with torch.no_grad():
    acc.unwrap_model(first).weight.fill_(5.0)
acc.save_state(where)
acc.wait_for_everyone()
acc.free_memory()

second = torch.nn.Linear(2, 2)
opt2 = torch.optim.SGD(second.parameters(), lr=0.1)
acc.load_state(where)  # <- load-state-before-prepare
second, opt2 = acc.prepare(second, opt2)
value = acc.unwrap_model(second).weight.mean().item()
acc.print(f"restored mean weight {value:.3f}, checkpoint holds 5.000")
acc.wait_for_everyone()
if acc.is_main_process:
    shutil.rmtree(where)
