import dist_utils as utils
import torch
import torch.nn.functional as F


def train_one_epoch(model, loader, optimizer, device, epoch):
    model.train()
    logger = utils.Logger()
    for images, targets in loader:
        images = images.to(device)
        targets = targets.to(device)
        output = model(images)
        losses = {"ce": F.cross_entropy(output, targets), "size": 1e-3 * output.pow(2).mean()}
        loss = sum(losses.values())
        reduced = utils.reduce_dict(losses)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        logger.update(loss=sum(v.item() for v in reduced.values()))
    logger.synchronize()
    return logger.meters["loss"].mean


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    logger = utils.Logger()
    for images, targets in loader:
        images = images.to(device)
        targets = targets.to(device)
        correct = (model(images).argmax(1) == targets).float().mean()
        logger.meters["accuracy"].update(correct.item(), n=images.shape[0])
    logger.synchronize()
    return logger.meters["accuracy"].mean
