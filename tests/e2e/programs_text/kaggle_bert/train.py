"""Kaggle style: train_fn / eval_fn with lists, AMP when there is CUDA, a scaler that may be None, submission by pandas."""
import gc
import numpy as np

import torch
import torch.nn as nn
from sklearn import metrics
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class config:
    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    TRAIN_BATCH_SIZE = 16
    VALID_BATCH_SIZE = 8
    EPOCHS = 2
    SEED = 42


class TweetDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.ids = rng.randint(0, 50, (n, 7))
        self.targets = (self.ids[:, 0] > 25).astype(float)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, item):
        return {"ids": torch.tensor(self.ids[item], dtype=torch.long), "targets": torch.tensor(self.targets[item], dtype=torch.float)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 12)
        self.out = nn.Linear(12, 1)

    def forward(self, ids):
        return self.out(self.emb(ids).mean(1))


def loss_fn(outputs, targets):
    return nn.BCEWithLogitsLoss()(outputs, targets.view(-1, 1))


def train_fn(data_loader, model, optimizer, device, scheduler, scaler=None):
    model.train()
    fin_targets, fin_outputs = [], []
    for bi, d in tqdm(enumerate(data_loader), total=len(data_loader)):
        ids = d["ids"]
        targets = d["targets"]
        ids = ids.to(device, dtype=torch.long)
        targets = targets.to(device, dtype=torch.float)
        optimizer.zero_grad()
        if scaler is not None:
            with torch.cuda.amp.autocast():
                outputs = model(ids=ids)
                loss = loss_fn(outputs, targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            outputs = model(ids=ids)
            loss = loss_fn(outputs, targets)
            loss.backward()
            optimizer.step()
        scheduler.step()
        fin_targets.extend(targets.cpu().detach().numpy().tolist())
        fin_outputs.extend(torch.sigmoid(outputs).cpu().detach().numpy().tolist())
    return metrics.roc_auc_score(fin_targets, fin_outputs)


def eval_fn(data_loader, model, device):
    model.eval()
    fin_targets = []
    fin_outputs = []
    with torch.no_grad():
        for bi, d in tqdm(enumerate(data_loader), total=len(data_loader)):
            ids = d["ids"].to(device, dtype=torch.long)
            targets = d["targets"].to(device, dtype=torch.float)
            outputs = model(ids=ids)
            fin_targets.extend(targets.cpu().detach().numpy().tolist())
            fin_outputs.extend(torch.sigmoid(outputs).cpu().detach().numpy().tolist())
    return fin_outputs, fin_targets


def predict(data_loader, model):
    preds = np.zeros((len(data_loader.dataset),))
    model.eval()
    offset = 0
    with torch.no_grad():
        for d in data_loader:
            out = torch.sigmoid(model(d["ids"].to(config.DEVICE))).cpu().numpy().ravel()
            preds[offset : offset + len(out)] = out
            offset += len(out)
    return preds


def run():
    torch.manual_seed(config.SEED)
    train_data_loader = DataLoader(TweetDataset(70, 0), batch_size=config.TRAIN_BATCH_SIZE, shuffle=True)
    valid_data_loader = DataLoader(TweetDataset(29, 1), batch_size=config.VALID_BATCH_SIZE)
    model = Model()
    model.to(config.DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-1)
    num_train_steps = int(70 / config.TRAIN_BATCH_SIZE * config.EPOCHS)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.1, 1 - s / num_train_steps))
    scaler = torch.cuda.amp.GradScaler() if torch.cuda.is_available() else None
    best_accuracy = 0
    for epoch in range(config.EPOCHS):
        auc = train_fn(train_data_loader, model, optimizer, config.DEVICE, scheduler, scaler)
        outputs, targets = eval_fn(valid_data_loader, model, config.DEVICE)
        outputs = np.array(outputs) >= 0.5
        accuracy = metrics.accuracy_score(targets, outputs)
        print(f"Train AUC = {auc:.5f} Accuracy Score = {accuracy:.5f}")
        if accuracy > best_accuracy:
            torch.save(model.state_dict(), "model.bin")
            best_accuracy = accuracy
        gc.collect()
    preds = predict(valid_data_loader, model)
    np.savetxt("submission.csv", np.stack([np.arange(len(preds)), preds], 1), fmt="%.5f", delimiter=",")


if __name__ == "__main__":
    run()
