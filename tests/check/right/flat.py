import time

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

accelerator = Accelerator(gradient_accumulation_steps=2)
set_seed(7)
dataset = TensorDataset(torch.randn(203, 8), torch.randint(2, (203,)))
train_set, test_set = random_split(dataset, [163, 40], generator=torch.Generator().manual_seed(0))
train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
test_loader = DataLoader(test_set, batch_size=8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3 * len(train_loader))
model, optimizer, train_loader, test_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, test_loader, scheduler)
accelerator.register_for_checkpointing(scheduler)
accelerator.load_state("state")
start = time.time()
resume_step = 3
steps = 3 * len(train_loader)
done = 0

for epoch in range(3):
    model.train()
    for step, (x, y) in enumerate(train_loader):
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        done += 1
    model.eval()
    correct = 0
    for x, y in test_loader:
        with torch.no_grad():
            predictions = model(x).argmax(1)
        predictions, y = accelerator.gather_for_metrics((predictions, y))
        correct += (predictions == y).sum().item()
    accelerator.print(f"epoch {epoch}: {correct / len(test_set):.3f} after {done} of {steps} steps, {time.time() - start:.0f} s")
    accelerator.save_state("state")

accelerator.wait_for_everyone()
state = accelerator.unwrap_model(model).state_dict()
if accelerator.is_main_process:
    torch.save(state, "model.pt")
