import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, start, stop):
        digits = load_digits()
        self.images = digits.images[start:stop] / 16
        self.labels = digits.target[start:stop]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"image": torch.as_tensor(self.images[index]).float()[None], "label": int(self.labels[index]), "name": f"digit{index}"}


def build_dataloaders(cfg):
    loaders = {}
    for split, (start, stop) in {"train": (0, 310), "val": (310, 400)}.items():
        loaders[split] = DataLoader(Digits(start, stop), batch_size=cfg.batch_size, shuffle=split == "train")
    return loaders
