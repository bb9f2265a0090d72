import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(args):
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(digits.target)
    train_set = TensorDataset(x[:500], y[:500])
    val_set = TensorDataset(x[500:690], y[500:690])
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=0, pin_memory=torch.cuda.is_available())
    val_loader = DataLoader(val_set, batch_size=args.batch_size, shuffle=False)
    return train_loader, val_loader
