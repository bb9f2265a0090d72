"""How values relate to those of the other processes. Each case runs at the end of a training step on `x`, `y`, `out`, `loss`."""

from __future__ import annotations

import pytest

from accel_migrate.facts.values import Spread
from codemod.marked import in_step, marked, script

UNKNOWN = {
    "a constant": "«3.0»",
    "the number of batches": "«len(loader)»",
    "the number of samples": "«len(dataset)»",
    "the second dimension of a batch": "«x.size(1)»",
    "the second dimension by index": "«x.shape[1]»",
    "a type": "«x.dtype»",
    "a parameter of the model": "total = 0.0\nfor p in model.parameters():\n    total = total + «p.norm()»",
    "a penalty on the parameters": "penalty = «sum(p.pow(2).sum() for p in model.parameters())»",
    "the position of a batch": "for i, batch in enumerate(loader):\n    «i»",
    "a learning rate": "«optimizer.param_groups[0]['lr']»",
    "the size of a batch divided by itself": "«len(x) / len(y)»",
    "a number per row times the number of rows": "«100 / len(x) * len(y)»",
    "noise of a fixed size": "noise = «torch.randn(16, 8)»",
    "a string about the batch": "text = «f'{len(x)} rows'»",
    "what an unknown name holds": "«something»",
    "what an unknown function makes of a number": "«something(3)»",
    "a dict of settings": "settings = {'lr': 0.1}\n«settings['lr']»",
    "a figure after item()": "figure = loss.item()\n«figure»",
    "the first dimension of transposed rows": "«out.t().shape[0]»",
    "the size of a stack": "«torch.stack([x, x]).size(0)»",
}
SHARDS = {
    "the inputs": "«x»",
    "the outputs": "«out»",
    "a slice of the rows": "«x[:8]»",
    "one column": "«out[:, 0]»",
    "a loss for each row": "«F.cross_entropy(out, y, reduction='none')»",
    "a sum along another dimension": "«out.sum(dim=1)»",
    "a mean along the last dimension": "«out.mean(-1)»",
    "predictions": "«out.argmax(dim=1)»",
    "hits": "«out.argmax(1) == y»",
    "arithmetic with a number": "«out / 3 + 1»",
    "noise like the batch": "«x + torch.randn_like(x)»",
    "noise of the batch's size": "«torch.randn(len(x), 3)»",
    "noise of the batch's shape": "«torch.randn(x.shape)»",
    "what an unknown function makes of rows": "«augment(x)»",
    "rows in a dict": "batch = {'image': x}\n«batch['image']»",
    "rows in a tuple": "pair = (x, y)\n«pair[1]»",
    "rows joined with rows": "«torch.cat([x, x], dim=1)»",
    "rows in another type": "«y.float()»",
    "rows from a function of the project": "def double(t):\n    return t * 2\n«double(x)»",
    "rows of one of two branches": "z = x if flag else y\n«z»",
    "a mean over a stack of rows": "«torch.stack([out, out]).mean(0)»",
    "a mean of transposed rows": "«out.T.mean(0)»",
    "a mean along a dimension put in front": "«x.unsqueeze(0).mean(0)»",
    "a sum over time of rows in the second dimension": "«x.view(4, len(x), 2).sum(0)»",
    "the hardest classes": "«out.topk(1, dim=1)[0]»",
    "a product for each row": "«torch.einsum('bi,bi->b', out, out)»",
}
MEANS = {
    "a loss of the library": "«loss»",
    "the mean of all": "«out.mean()»",
    "torch.mean of all": "«torch.mean(out)»",
    "a mean along the rows": "«out.mean(dim=0)»",
    "a loss times a number": "«loss * 0.5»",
    "a loss divided by the number of accumulated batches": "«loss / 4»",
    "a sum over the number of rows": "«out.sum() / len(x)»",
    "two means": "«loss + out.mean()»",
    "a mean and a penalty that all processes share": "«loss + sum(p.norm() for p in model.parameters())»",
    "a mean divided by a function": "«torch.div(loss, 4)»",
    "a mean added to something shared": "«torch.zeros(()).add(loss)»",
    "a mean in another type": "«loss.float().cpu()»",
    "a mean of chosen classes, one for each row": "«out[torch.arange(len(y)), y].mean()»",
    "a mean of columns": "«out[:, 0].mean()»",
    "minus a mean": "«-loss»",
    "a detached mean": "«loss.detach()»",
    "the mean of losses for each row": "«F.mse_loss(out, out, reduction='none').mean()»",
    "a loss module of the library": "criterion = nn.CrossEntropyLoss()\n«criterion(out, y)»",
    "a mean of the rows, multiplied": "«out.mean(0) @ torch.eye(2)»",
    "a mean over the columns of transposed rows": "«out.T.mean(1)»",
}
SUMS = {
    "a sum of the rows that a mask chooses": "mask = (y != 0) & (x[:, 0] > 0)\n«out[mask].sum()»",
    "the sum of all": "«out.sum()»",
    "a sum along the rows": "«out.sum(dim=0)»",
    "a summed loss": "«F.cross_entropy(out, y, reduction='sum')»",
    "a loss that was asked not to average in the old way": "«nn.MSELoss(size_average=False)(out, out)»",
    "hits counted": "«(out.argmax(1) == y).sum()»",
    "a mean times the number of rows": "«loss * len(x)»",
    "a mean times the size": "«loss * x.size(0)»",
    "a product that sums over the rows": "«out.T @ out»",
    "the same by a method": "«out.t().mm(out)»",
    "the same by einsum": "«torch.einsum('bi,bj->ij', out, out)»",
    "a product of two columns": "«torch.dot(out[:, 0], out[:, 1])»",
    "the number of rows that a mask chooses": "«len(y[y > 0])»",
    "the first dimension of rows that a mask chooses": "«x[y > 0].shape[0]»",
    "the number of places where a mask holds": "mask = y > 0\n«len(mask.nonzero())»",
}
COUNTS = {
    "the length of a batch": "«len(x)»",
    "the first dimension": "«x.size(0)»",
    "the first dimension by index": "«x.shape[0]»",
    "the first of the unpacked dimensions": "n, d = x.shape\n«n»",
    "the number of elements": "«x.numel()»",
    "rows times a number": "«2 * len(x)»",
}
OTHERS = {
    "a share of the rows": ("«100 / len(x)»", Spread.RATE),
    "one row": ("for row in x:\n    «row»", Spread.ROW),
    "a mean of the rows that a mask chooses": ("mask = y != 0\n«out[mask].mean()»", Spread.RATIO),
    "a mean of the rows at the places of a mask": ("mask = y != 0\nplaces = torch.where(mask)[0]\n«out[places].mean()»", Spread.RATIO),
    "a mean of what a mask selects": ("mask = y != 0\n«torch.masked_select(out[:, 0], mask).mean()»", Spread.RATIO),
    "a loss of the rows that a condition chooses": ("«F.cross_entropy(out[y > 0], y[y > 0])»", Spread.RATIO),
    "a sum over a sum": ("mask = y != 0\n«(out[:, 0] * mask).sum() / mask.sum()»", Spread.RATIO),
    "a loss that leaves out targets": ("«F.cross_entropy(out, y, ignore_index=0)»", Spread.RATIO),
    "a loss with class weights": ("w = torch.ones(2)\n«F.cross_entropy(out, y, weight=w)»", Spread.RATIO),
    "a mean plus a sum": ("«loss + out.sum()»", Spread.MIXED),
    "the root of a mean": ("«loss.sqrt()»", Spread.MIXED),
    "a maximum": ("«out.max()»", Spread.MIXED),
    "a standard deviation": ("«out.std()»", Spread.MIXED),
    "a mean from which nothing may fall below": ("«loss.clamp(min=0.1)»", Spread.MIXED),
    "a mean that is kept above a level": ("«(loss - 0.1).abs() + 0.1»", Spread.MIXED),
    "the positive part of a mean": ("«F.relu(loss - 1)»", Spread.MIXED),
    "the larger of two means": ("«torch.maximum(loss, out.mean())»", Spread.MIXED),
    "the smaller of a number and a mean": ("«torch.minimum(torch.tensor(1.0), loss)»", Spread.MIXED),
    "a product of means": ("«loss * out.mean()»", Spread.MIXED),
}
NOT_IN_A_BATCH = {
    "a tensor outside of all loops": "«torch.randn(4, 2)»",
    "the data set": "«dataset»",
    "a model on data of its own": "«model(torch.randn(4, 8))»",
    "an element of a list of numbers": "for lr in [0.1, 0.2]:\n    «lr»",
    "a loss on data of its own": "z = torch.randn(4, 8)\n«F.mse_loss(z, z)»",
}


@pytest.mark.parametrize("code", UNKNOWN.values(), ids=UNKNOWN)
def test_is_the_same_on_all_processes_or_unknown(code: str) -> None:
    assert marked(in_step(code)).spreads == set()


@pytest.mark.parametrize("code", NOT_IN_A_BATCH.values(), ids=NOT_IN_A_BATCH)
def test_has_nothing_to_do_with_a_batch(code: str) -> None:
    assert marked(script(code)).spreads == set()


@pytest.mark.parametrize("code", SHARDS.values(), ids=SHARDS)
def test_is_rows_of_the_batch(code: str) -> None:
    assert marked(in_step(code)).spreads == {Spread.SHARD}


@pytest.mark.parametrize("code", MEANS.values(), ids=MEANS)
def test_is_a_mean_over_the_rows(code: str) -> None:
    assert marked(in_step(code)).spreads == {Spread.MEAN}


@pytest.mark.parametrize("code", SUMS.values(), ids=SUMS)
def test_is_a_sum_over_the_rows(code: str) -> None:
    assert marked(in_step(code)).spreads == {Spread.SUM}


@pytest.mark.parametrize("code", COUNTS.values(), ids=COUNTS)
def test_is_a_number_of_rows(code: str) -> None:
    assert marked(in_step(code)).spreads == {Spread.COUNT}


@pytest.mark.parametrize(("code", "spread"), OTHERS.values(), ids=OTHERS)
def test_differs_between_processes_in_another_way(code: str, spread: Spread) -> None:
    assert marked(in_step(code)).spreads == {spread}
