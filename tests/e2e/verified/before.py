import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

features = torch.randn(253, 16)
labels = (features.sum(dim=1) > 0).long()
loader = DataLoader(TensorDataset(features[:185], labels[:185]), batch_size=32, shuffle=True)
held_out = DataLoader(TensorDataset(features[185:], labels[185:]), batch_size=25)

model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)

for epoch in range(2):
    model.train()
    running_loss = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running_loss += loss.item()
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in held_out:
            x, y = x.to(device), y.to(device)
            correct += (model(x).argmax(dim=1) == y).sum().item()
    print(f"epoch {epoch}: loss {running_loss / len(loader):.4f}, {correct} of {len(held_out.dataset)} right")
    torch.save({"model": model.state_dict(), "epoch": epoch}, "checkpoint.pt")
