"""WeightedRandomSampler, a batch sampler of one's own, and BCE with pos_weight; AUC on sigmoid scores."""
import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler, WeightedRandomSampler


class Rows(Dataset):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"features": self.x[index], "target": self.y[index], "id": f"row{index}"}


class LengthBatches(Sampler):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __iter__(self):
        order = torch.randperm(self.n).tolist()
        for i in range(0, self.n, self.size):
            yield order[i : i + self.size]

    def __len__(self):
        return (self.n + self.size - 1) // self.size


def run(use_batches):
    torch.manual_seed(9)
    rng = np.random.RandomState(0)
    x = torch.tensor(rng.randn(150, 7), dtype=torch.float32)
    y = (x[:, 0] + 0.2 * x[:, 1] > 1).float()
    train = Rows(x[:110], y[:110])
    test = Rows(x[110:], y[110:])
    if use_batches:
        loader = DataLoader(train, batch_sampler=LengthBatches(110, 24))
    else:
        w = torch.where(train.y > 0, 3.0, 1.0)
        loader = DataLoader(train, batch_size=24, sampler=WeightedRandomSampler(w, len(w)))
    test_loader = DataLoader(test, batch_size=16)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.Linear(12, 1)).to(device)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([2.0], device=device))
    opt = torch.optim.RMSprop(model.parameters(), lr=0.01)
    for epoch in range(2):
        model.train()
        epoch_loss = []
        for batch in loader:
            features, target = batch["features"].to(device), batch["target"].to(device)
            opt.zero_grad()
            out = model(features).squeeze(-1)
            loss = criterion(out, target)
            loss.backward()
            opt.step()
            epoch_loss.append(loss.item())
        print("loss", np.mean(epoch_loss))
        model.eval()
        preds, targets, ids = [], [], []
        with torch.no_grad():
            for batch in test_loader:
                out = model(batch["features"].to(device)).squeeze(-1)
                preds.append(torch.sigmoid(out).cpu())
                targets.append(batch["target"])
                ids += batch["id"]
        preds = torch.cat(preds).numpy()
        targets = torch.cat(targets).numpy()
        print("auc %.4f ap %.4f n %d first %s last %s" % (roc_auc_score(targets, preds), average_precision_score(targets, preds), len(ids), ids[0], ids[-1]))


run(False)
run(True)
