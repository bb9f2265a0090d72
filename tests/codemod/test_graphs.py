"""PyTorch Geometric: its loader joins the nodes of all graphs of a batch."""

from __future__ import annotations

from codemod.memory import after, migrated

GRAPHS = """\
import torch
import torch.nn.functional as F
from torch_geometric.loader import {loader}
from torch_geometric.nn import GCNConv, global_mean_pool


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(8, 16)
        self.last = torch.nn.Linear(16, 2)

    def forward(self, x, edge_index, batch):
        x = self.first(x, edge_index).relu()
        {pool}
        return self.last(x)


loader = {loader}(graphs, batch_size=32{more})
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for data in loader:
    optimizer.zero_grad()
    out = model(data.x, data.edge_index, data.batch)
    loss = F.cross_entropy(out, data.y)
    loss.backward()
    optimizer.step()
"""


def test_a_loss_of_nodes_is_a_mean_over_the_nodes_of_all_processes() -> None:
    text = after(migrated(GRAPHS.format(loader="DataLoader", pool="x = x.relu()", more="")))
    assert "accelerator.backward(loss, weight=len(out))" in text


def test_a_loss_of_pooled_nodes_is_a_mean_over_graphs() -> None:
    text = after(migrated(GRAPHS.format(loader="DataLoader", pool="x = global_mean_pool(x, batch)", more="")))
    assert "accelerator.backward(loss)" in text


def test_a_loader_that_samples_one_graph_is_not_guessed_at() -> None:
    result = migrated(GRAPHS.format(loader="NeighborLoader", pool="x = x.relu()", more=", num_neighbors=[5]"))
    assert result.status == "refused" and "shard_batch" in result.reason
