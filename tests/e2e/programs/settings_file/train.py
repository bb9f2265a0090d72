"""Everything is made by names in a settings file: one function makes loader, model, optimizer and scheduler."""

import data as data_module
import losses as loss_module
import metrics as metric_module
import models as model_module
import torch
from settings import Settings
from trainer import Trainer


def main(settings):
    torch.manual_seed(4)
    loader = settings.make("data", data_module)
    held_out = loader.split()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = settings.make("model", model_module)
    model = model.to(device)
    criterion = getattr(loss_module, settings["loss"])
    metrics = [getattr(metric_module, name) for name in settings["metrics"]]
    trainable = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = settings.make("optimizer", torch.optim, trainable)
    scheduler = settings.make("scheduler", torch.optim.lr_scheduler, optimizer)
    trainer = Trainer(model, criterion, metrics, optimizer, device=device, loader=loader, held_out=held_out, scheduler=scheduler)
    trainer.train(3)


if __name__ == "__main__":
    main(Settings.from_file("settings.json"))
