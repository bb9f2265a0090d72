"""Per-rank seed comes first, random_split second: train and validation leak into each other."""
import torch
from torch.utils.data import DataLoader, random_split
from accelerate import Accelerator
from accelerate.utils import set_seed

acc = Accelerator()
set_seed(77, device_specific=True)
everything = torch.arange(40)
train_set, val_set = random_split(everything, [30, 10])  # <- rank-dependent-dataset-construction
train = acc.prepare(DataLoader(train_set, batch_size=5, shuffle=True))
val = acc.prepare(DataLoader(val_set, batch_size=5))
seen = {int(i) for ids in train for i in acc.gather(ids)}
held = {int(i) for ids in val for i in acc.gather(ids)}
acc.print(f"{len(seen & held)} validation samples were trained on; union covers {len(seen | held)} of 40")
