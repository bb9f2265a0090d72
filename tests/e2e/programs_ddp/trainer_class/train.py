import argparse
import os

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from trainer import Trainer


def ddp_setup():
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group(backend="nccl" if torch.cuda.is_available() else "gloo")


def load_train_objs():
    torch.manual_seed(21)
    x = torch.randn(128, 20)
    dataset = TensorDataset(x, x[:, :4].argmax(1))
    model = torch.nn.Linear(20, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return dataset, model, optimizer


def prepare_dataloader(dataset, batch_size):
    return DataLoader(dataset, batch_size=batch_size, shuffle=False, sampler=DistributedSampler(dataset))


def main(save_every, total_epochs, batch_size, snapshot_path="snapshot.pt"):
    ddp_setup()
    dataset, model, optimizer = load_train_objs()
    train_data = prepare_dataloader(dataset, batch_size)
    trainer = Trainer(model, train_data, optimizer, save_every, snapshot_path)
    trainer.train(total_epochs)
    destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="simple distributed training job")
    parser.add_argument("--total_epochs", default=3, type=int)
    parser.add_argument("--save_every", default=1, type=int)
    parser.add_argument("--batch_size", default=16, type=int, help="on each process")
    args = parser.parse_args()
    main(args.save_every, args.total_epochs, args.batch_size)
