"""No loader: a generator of shuffled NumPy batches, lists of batches, and the same data in chunks for evaluation."""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.utils import gen_batches
from torch import nn

SIZE = 40
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
digits = load_digits()
X_train, y_train = digits.data[:333] / 16, digits.target[:333]
X_test, y_test = digits.data[333:500] / 16, digits.target[333:500]


def minibatches(data, labels, size):
    order = np.arange(len(data))
    np.random.shuffle(order)
    for number in range(len(order) // size + 1):
        chosen = order[number * size : (number + 1) * size]
        yield data[chosen], labels[chosen]


def in_order(data, labels, size):
    kept = []
    for start in range(0, len(data), size):
        kept.append((torch.tensor(data[start : start + size]).float(), torch.tensor(labels[start : start + size])))
    return kept


def evaluate(model, batches):
    model.eval()
    total, hits, seen = 0.0, 0, 0
    with torch.no_grad():
        for x, y in batches:
            out = model(x.to(device))
            total += F.cross_entropy(out, y.to(device), reduction="sum").item()
            hits += (out.argmax(1).cpu() == y).sum().item()
            seen += len(y)
    return total / seen, hits / seen


def main():
    torch.manual_seed(3)
    np.random.seed(3)
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    held_out = in_order(X_test, y_test, SIZE)
    for epoch in range(3):
        model.train()
        running = 0.0
        for step, (xb, yb) in enumerate(minibatches(X_train, y_train, SIZE)):
            x = torch.from_numpy(xb).float().to(device)
            y = torch.from_numpy(yb).long().to(device)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item() * len(x)
            if step % 4 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.5f}")
        loss, accuracy = evaluate(model, held_out)
        print(f"epoch {epoch} mean {running / len(X_train):.5f} test {loss:.5f} {accuracy:.4f}")

    model.train()
    inputs, targets = torch.tensor(X_train).float(), torch.tensor(y_train)
    for x, y in zip(inputs.split(64), torch.split(targets, 64)):
        loss = F.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for rows in gen_batches(len(inputs), 100):
        loss = F.cross_entropy(model(inputs[rows].to(device)), targets[rows].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last {loss.item():.5f}")
    torch.save(model.state_dict(), "generators.pt")


main()
