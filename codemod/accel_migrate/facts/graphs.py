"""PyTorch Geometric: its loader joins the nodes and edges of all graphs of a batch, its pooling makes a row for each graph."""

from __future__ import annotations

from accel_migrate.facts.values import Made, Value

LOADERS = {"torch_geometric.loader.DataLoader", "torch_geometric.data.DataLoader", "torch_geometric.loader.dataloader.DataLoader"}
JOINED = frozenset({
    "x", "pos", "z", "batch", "edge_index", "edge_attr", "edge_weight", "edge_label", "face", "norm", "node_attr", "train_mask", "val_mask", "test_mask",
})  # fmt: skip
"""Fields of its batches that hold nodes or edges. The labels `y` may be of either; what is compared with them tells."""
_POOLS = {"global_add_pool", "global_mean_pool", "global_max_pool", "global_sort_pool", "Set2Set", "GlobalAttention"}


def joined_by(loader: Value) -> frozenset[str]:
    """The fields that `loader` joins by itself."""
    return JOINED if isinstance(loader, Made) and loader.detail in LOADERS else frozenset()


def pools(name: str) -> bool:
    """Whether what `name` is called for, or its objects, make one row of the nodes of each graph."""
    last = name.rpartition(".")[2]
    return name.startswith("torch_geometric.nn.") and (last in _POOLS or last.endswith("Aggregation"))
