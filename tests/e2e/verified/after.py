import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel_runtime import Accelerator, set_seed

set_seed(0)
accelerator = Accelerator(split_batches=True)

features = torch.randn(253, 16)
labels = (features.sum(dim=1) > 0).long()
loader = DataLoader(TensorDataset(features[:185], labels[:185]), batch_size=32, shuffle=True)
held_out = DataLoader(TensorDataset(features[185:], labels[185:]), batch_size=25)

model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
model, optimizer, loader, held_out, scheduler = accelerator.prepare(
    model, optimizer, loader, held_out, scheduler
)

for epoch in range(2):
    model.train()
    running_loss = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        accelerator.backward(loss)
        optimizer.step()
        scheduler.step()
        running_loss += accelerator.global_mean(loss).item()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in held_out:
            output, y = accelerator.gather_for_metrics((model(x), y))
            correct += (output.argmax(dim=1) == y).sum().item()
    accelerator.print(f"epoch {epoch}: loss {running_loss / len(loader):.4f}, {correct} of {len(held_out.dataset)} right")
    accelerator.save({"model": accelerator.get_state_dict(model), "epoch": epoch}, "checkpoint.pt")
