"""Figures of a batch that its rows meet again: made global where no gradient flows through them, else reported."""

from __future__ import annotations

import pytest

from codemod.marked import in_step
from codemod.memory import after, migrated

LOSSES = "each = F.cross_entropy(out, y, reduction='none')\n"
GLOBAL = {
    "a mean of the inputs": ("z = x - x.mean(0)", "x - accelerator.global_mean(x.mean(0))"),
    "a deviation of the inputs": ("z = x / x.std(0)", "x / accelerator.gather_for_metrics(x).std(0)"),
    "weights made of detached losses": (f"{LOSSES}w = each.detach() / each.detach().sum()", "accelerator.global_sum(each.detach().sum())"),
    "a threshold": (f"{LOSSES}hard = each[each > each.detach().median()]", "accelerator.gather_for_metrics(each.detach()).median()"),
    "weights of a loss": ("p = (y == 0).sum()\nF.binary_cross_entropy_with_logits(out[:, 0], y.float(), pos_weight=p)", "pos_weight=accelerator.global_sum(p)"),
    "a root": ("print(loss.sqrt().item())", "accelerator.global_mean(loss).sqrt().item()"),
    "a function of Python": ("import math\nprint(math.exp(loss))", "math.exp(accelerator.global_mean(loss))"),
    "the classes of a batch": ("print(len(y.unique()))", "len(accelerator.gather_for_metrics(y).unique())"),
}
REPORTED = {
    "a mean with gradients": ("z = out - out.mean(0)\nz.sum().backward()", "batch-coupling"),
    "the hardest samples": (f"{LOSSES}each.topk(4)[0].mean().backward()", "row-mixing"),
    "the hardest samples, shown": (f"{LOSSES}hard = each.topk(4)[0].mean()\nhard.backward()\nprint(hard.item())", "local-figure"),
    "weights over the rows": (f"{LOSSES}(F.softmax(each, -1) * each).sum().backward()", "row-mixing"),
    "the root of a loss with gradients": ("r = loss.sqrt()\nr.backward()\nprint(r.item())", "mixed-reduction"),
    "all pairs by einsum": ("torch.einsum('id,jd->ij', out, out).sum().backward()", "batch-coupling"),
}


@pytest.mark.parametrize(("code", "expected"), GLOBAL.values(), ids=GLOBAL)
def test_becomes_global(code: str, expected: str) -> None:
    result = migrated(in_step(code))
    assert expected in after(result) and not result.findings


@pytest.mark.parametrize(("code", "rule"), REPORTED.values(), ids=REPORTED)
def test_is_reported(code: str, rule: str) -> None:
    assert rule in {finding.rule for finding in migrated(in_step(code)).findings}
