import torch
from torch import nn
from torch.utils import data
from sklearn.datasets import load_digits


class Accumulator:
    def __init__(self, n):
        self.data = [0.0] * n

    def add(self, *args):
        self.data = [a + float(b) for a, b in zip(self.data, args)]

    def __getitem__(self, idx):
        return self.data[idx]


def try_gpu(i=0):
    if torch.cuda.device_count() >= i + 1:
        return torch.device(f'cuda:{i}')
    return torch.device('cpu')


def load_data(batch_size):
    d = load_digits()
    X, y = torch.tensor(d.images[:400], dtype=torch.float32) / 16, torch.tensor(d.target[:400])
    return (data.DataLoader(data.TensorDataset(X[:300, None], y[:300]), batch_size, shuffle=True),
            data.DataLoader(data.TensorDataset(X[300:, None], y[300:]), batch_size, shuffle=False))


def accuracy(y_hat, y):
    if len(y_hat.shape) > 1 and y_hat.shape[1] > 1:
        y_hat = y_hat.argmax(axis=1)
    cmp = y_hat.type(y.dtype) == y
    return float(cmp.type(y.dtype).sum())


def evaluate_accuracy_gpu(net, data_iter, device=None):
    if isinstance(net, nn.Module):
        net.eval()
        if not device:
            device = next(iter(net.parameters())).device
    metric = Accumulator(2)
    with torch.no_grad():
        for X, y in data_iter:
            if isinstance(X, list):
                X = [x.to(device) for x in X]
            else:
                X = X.to(device)
            y = y.to(device)
            metric.add(accuracy(net(X), y), y.numel())
    return metric[0] / metric[1]


def train_ch6(net, train_iter, test_iter, num_epochs, lr, device):
    def init_weights(m):
        if type(m) == nn.Linear or type(m) == nn.Conv2d:
            nn.init.xavier_uniform_(m.weight)
    net.apply(init_weights)
    print('training')
    net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    loss = nn.CrossEntropyLoss()
    num_batches = len(train_iter)
    for epoch in range(num_epochs):
        metric = Accumulator(3)
        net.train()
        for i, (X, y) in enumerate(train_iter):
            optimizer.zero_grad()
            X, y = X.to(device), y.to(device)
            y_hat = net(X)
            l = loss(y_hat, y)
            l.backward()
            optimizer.step()
            with torch.no_grad():
                metric.add(l * X.shape[0], accuracy(y_hat, y), X.shape[0])
            train_l = metric[0] / metric[2]
            train_acc = metric[1] / metric[2]
            if (i + 1) % (num_batches // 3) == 0 or i == num_batches - 1:
                print(f'{epoch + (i + 1) / num_batches:.2f}', f'{train_l:.4f} {train_acc:.4f}')
        test_acc = evaluate_accuracy_gpu(net, test_iter)
        print(f'epoch {epoch} test acc {test_acc:.4f}')
    print(f'loss {train_l:.3f}, train acc {train_acc:.3f}, test acc {test_acc:.3f}')


torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 6, kernel_size=3, padding=1), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(),
                    nn.Linear(96, 32), nn.Sigmoid(), nn.Linear(32, 10))
train_iter, test_iter = load_data(batch_size=64)
train_ch6(net, train_iter, test_iter, 2, 0.9, try_gpu())
