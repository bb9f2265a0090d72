import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset


class SplitLoader(DataLoader):
    """The first samples are held out, for a loader of their own."""

    def __init__(self, x, y, batch_size, held_out):
        self.samples = len(x) - held_out
        self.rest = TensorDataset(x[:held_out], y[:held_out])
        super().__init__(TensorDataset(x[held_out:], y[held_out:]), batch_size=batch_size, shuffle=True)

    def split(self):
        return None if len(self.rest) == 0 else DataLoader(self.rest, batch_size=self.batch_size)


class DigitLoader(SplitLoader):
    def __init__(self, batch_size, held_out):
        digits = load_digits()
        x = torch.tensor(digits.data[:400] / 16, dtype=torch.float32)
        super().__init__(x, torch.tensor(digits.target[:400]), batch_size, held_out)
