"""Recurrent state made for a whole batch: started anew for each epoch, handed on from batch to batch; then a text by hand, in parallel pieces."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(6)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Reader(nn.Module):
    def __init__(self, vocabulary, width=12, layers=2):
        super().__init__()
        self.width, self.layers = width, layers
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, hidden):
        out, hidden = self.lstm(self.embedding(tokens), hidden)
        return self.head(out), hidden

    def init_hidden(self, rows):
        weight = next(self.parameters()).data
        return weight.new(self.layers, rows, self.width).zero_(), weight.new(self.layers, rows, self.width).zero_()


rows = 10
tokens = torch.randint(0, 15, (110, 9))
train_loader = DataLoader(TensorDataset(tokens[:80, :-1], tokens[:80, 1:]), batch_size=rows, shuffle=True)
test_loader = DataLoader(TensorDataset(tokens[80:, :-1], tokens[80:, 1:]), batch_size=rows)
net = Reader(15).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(3):
    net.train()
    hidden = net.init_hidden(rows)
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        hidden = tuple([each.data for each in hidden])
        optimizer.zero_grad()
        output, hidden = net(x, hidden)
        loss = criterion(output.transpose(1, 2), y)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    net.eval()
    losses = []
    with torch.no_grad():
        state = net.init_hidden(rows)
        for x, y in test_loader:
            x, y = x.to(device), y.to(device)
            output, state = net(x, state)
            losses.append(criterion(output.transpose(1, 2), y).item())
    print(f"epoch {epoch}: {loss.item():.5f} test {np.mean(losses):.5f}")
torch.save(net.state_dict(), "recurrent_state.pt")
