"""Numbers of rows by class are figures of the whole batch, before anything is made of them."""

from __future__ import annotations

import pytest

from codemod.marked import STEP, in_step, script
from codemod.memory import after, migrated

WEIGHTS = "F.cross_entropy(out, y, weight=w).backward()"
GLOBAL = {
    "counts of known size": ("c = torch.bincount(y, minlength=2)\nprint(c / c.sum())", "c = accelerator.global_sum(torch.bincount(y, minlength=2))"),
    "counts by a method": ("c = y.bincount(minlength=2)\nprint(1 / c)", "c = accelerator.global_sum(y.bincount(minlength=2))"),
    "counts whose size the rows decide": ("c = torch.bincount(y)\nprint(1 / c)", "torch.bincount(accelerator.gather_for_metrics(y))"),
    "a histogram with bounds": ("print(torch.histc(out.detach(), 5, -2, 2).tolist())", "accelerator.global_sum(torch.histc(out.detach(), 5, -2, 2))"),
    "a histogram between its extremes": ("print(torch.histc(out.detach(), 5))", "torch.histc(accelerator.gather_for_metrics(out.detach()), 5)"),
    "weights by scattering": (f"c = torch.zeros(2).scatter_add_(0, y, torch.ones(len(y)))\nw = 1 / c.clamp(min=1)\n{WEIGHTS}", "c = accelerator.global_sum(torch.zeros(2).scatter_add_("),
    "counts filled in place": ("c = torch.zeros(2)\nc.scatter_add_(0, y, torch.ones(len(y)))\nprint(1 / c.clamp(min=1))", "1 / accelerator.global_sum(c).clamp(min=1)"),
    "the inverse of a sum, by name": (f"w = 1.0 / (y == 1).sum()\n{WEIGHTS}", "w = 1.0 / accelerator.global_sum((y == 1).sum())"),
    "the classes of a batch, by function": ("print(len(torch.unique(y)))", "len(torch.unique(accelerator.gather_for_metrics(y)))"),
    "a score of scikit-learn": ("from sklearn.metrics import accuracy_score\nprint(accuracy_score(y, out.argmax(1)))", "accuracy_score(accelerator.gather_for_metrics(y), accelerator.gather_for_metrics(out.argmax(1)))"),
    "a quantile by function": ("print(torch.quantile(out.detach(), 0.9).item())", "torch.quantile(accelerator.gather_for_metrics(out.detach()), 0.9)"),
}


@pytest.mark.parametrize(("code", "expected"), GLOBAL.values(), ids=GLOBAL)
def test_becomes_global(code: str, expected: str) -> None:
    result = migrated(in_step(code))
    assert expected in after(result) and not result.findings


def test_a_confusion_matrix_of_one_batch_is_summed_where_it_is_shown() -> None:
    text = after(migrated(in_step("m = torch.zeros(2, 2)\nm.index_put_((y, out.argmax(1)), torch.ones(len(y)), accumulate=True)\nprint(m)")))
    assert "accelerator.print(accelerator.global_sum(m))" in text


def test_a_confusion_matrix_over_batches_takes_all_rows() -> None:
    fill = "    m.index_put_((y, out.argmax(1)), torch.ones(len(y)), accumulate=True)\nprint(m)\n"
    text = after(migrated(script("m = torch.zeros(2, 2)\n" + STEP + fill)))
    assert "m.index_put_((accelerator.gather_for_metrics(y), accelerator.gather_for_metrics(out.argmax(1))), accelerator.gather_for_metrics(" in text
    assert "accelerator.print(m)" in text


def test_counts_that_cut_the_rows_stay_local() -> None:
    result = migrated(in_step("sizes = torch.bincount(y, minlength=2)\nbounds = sizes.cumsum(0)\nparts = torch.tensor_split(x, bounds)"))
    assert "sizes = torch.bincount(y, minlength=2)\n" in after(result)
