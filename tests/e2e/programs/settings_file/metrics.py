import torch


def accuracy(output, target):
    with torch.no_grad():
        correct = 0
        correct += torch.sum(output.argmax(1) == target).item()
    return correct / len(target)


def top_two(output, target, k=2):
    with torch.no_grad():
        best = torch.topk(output, k, dim=1)[1]
        correct = 0
        for i in range(k):
            correct += torch.sum(best[:, i] == target).item()
    return correct / len(target)


def confidence(output, target):
    with torch.no_grad():
        return output.exp().max(1)[0].mean().item()
