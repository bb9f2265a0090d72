"""Where values that differ between processes leave the tensors: there, and nowhere else, they are made global."""

from __future__ import annotations

import ast

import pytest

from codemod.marked import in_step, script
from codemod.memory import facts_of

NOTHING = {
    "a figure that nobody looks at": "half = loss * 0.5",
    "a list that lives for one batch": "parts = []\nparts.append(loss)\nparts.append(out.mean())\ntotal = torch.stack(parts).sum()",
    "a dict that lives for one batch": "parts = {'a': loss}\ntotal = parts['a'] * 2",
    "a sum that starts anew with every batch": "total = 0.0\ntotal = total + loss\ntotal += out.mean()",
    "a counter of steps": "step = 0\nstep += 1\nprint(step)",
    "the number of samples in the data set": "print(len(dataset))",
    "the number of batches": "print(len(loader))",
    "the shape of a row": "print(x.shape[1:])",
    "a test for None": "if loss is None:\n    raise SystemExit",
    "a test of two numbers of rows": "if len(x) != len(y):\n    pass",
    "a learning rate": "print(optimizer.param_groups[0]['lr'])",
    "the norm of a parameter": "print(next(model.parameters()).norm().item())",
    "a type": "print(x.dtype, x.device)",
    "a name": "print('loss')",
    "what one process complains of": "if x.shape[1] != 8:\n    raise ValueError(f'{x.shape[1]} columns in {len(x)} rows')",
    "what an assertion complains of": "assert x.shape[1] == 8, f'{len(x)} rows'",
    "an assertion on a second dimension": "assert x.shape[1] == 8",
}
CONVERTED = {
    "a number of rows that rows are divided by": ("a = (out / len(x)).sum()", {"len(x)"}),
    "item() of a mean": ("a = loss.item()", {"loss"}),
    "float() of a mean": ("a = float(loss)", {"loss"}),
    "print": ("print(loss)", {"loss"}),
    "print in an f-string": ("print(f'{loss:.3f}')", {"loss"}),
    "an f-string, whoever reads it": ("text = f'{loss:.3f}'", {"loss"}),
    "a line of a file": ("log = open('log.txt', 'w')\nlog.write(f'{loss:.3f}')", {"loss"}),
    "str() of a mean": ("text = str(loss)", {"loss"}),
    "print with format": ("print('{}'.format(loss))", {"loss"}),
    "format of a mean": ("text = '{:.3f}'.format(loss)", {"loss"}),
    "the best so far": ("best = min(best, loss)", {"loss"}),
    "print with %": ("print('%f' % loss)", {"loss"}),
    "a comparison": ("if loss > 3:\n    pass", {"loss"}),
    "a test": ("if loss:\n    pass", {"loss"}),
    "a while": ("while loss > 100:\n    break", {"loss"}),
    "a logger": ("import logging\nlogging.getLogger().info('%s', loss)", {"loss"}),
    "a writer": ("from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()\nw.add_scalar('l', loss, 0)", {"loss"}),
    "a progress bar": ("from tqdm import tqdm\nbar = tqdm(loader)\nbar.set_postfix(loss=loss)", {"loss"}),
    "rows as an array": ("a = out.numpy()", {"out"}),
    "rows as a list": ("a = out.tolist()", {"out"}),
    "hits counted": ("a = (out.argmax(1) == y).sum().item()", {"(out.argmax(1) == y).sum()"}),
    "two figures in one line": ("print(loss, out.mean())", {"loss", "out.mean()"}),
    "only the figure in a line": ("print(3, loss, 'x')", {"loss"}),
    "a number of rows": ("print(len(x))", {"len(x)"}),
}
OUTLIVING = {
    "a list that outlives the batch": ("losses = []", "losses.append(loss)", {"loss"}),
    "a sum that outlives the batch": ("total = 0.0", "total += loss", {"loss"}),
    "a sum of items": ("total = 0.0", "total += loss.item()", {"loss"}),
    "a counter of samples": ("seen = 0", "seen += len(x)", {"len(x)"}),
    "a meter": ("from somewhere import Meter\nmeter = Meter()", "meter.update(loss)", {"loss"}),
    "a meter of the project": (
        "class Meter:\n    def __init__(self):\n        self.sum = 0\n    def update(self, value):\n        self.sum += value\nmeter = Meter()",
        "meter.update(loss.item())",
        {"loss"},
    ),
    "a running mean": ("center = torch.zeros(2)", "center = 0.9 * center + 0.1 * out.detach().mean(0)", {"out.detach().mean(0)"}),
    "a running mean by a variable": ("center = torch.zeros(2)", "m = out.mean(0)\ncenter = center * 0.9 + m * 0.1", {"m"}),
    "a running mean in place": ("center = torch.zeros(2)", "center.mul_(0.9).add_(out.mean(0), alpha=0.1)", {"out.mean(0)"}),
    "a sum in place": ("total = torch.zeros(())", "total.add_(loss.detach())", {"loss.detach()"}),
    "a sum anew": ("total = 0", "total = total + loss.detach()", {"loss.detach()"}),
    "an average by lerp": ("center = torch.zeros(2)", "center.lerp_(out.mean(0), 0.1)", {"out.mean(0)"}),
    "a figure in a dict call": ("kept = []", "kept.append(dict(loss=loss.detach()))", {"loss.detach()"}),
    "a queue": ("queue = torch.zeros(2, 64)\nstart = 0", "end = start + len(x)\nqueue[:, start:end] = out.detach().T", {"out.detach().T", "len(x)"}),
    "a weighted sum": ("total = 0.0", "total += loss.item() * len(x)", {"loss", "loss.item() * len(x)"}),
}


def converted(text: str) -> set[str]:
    return {ast.unparse(c.value) for c in facts_of(text).conversions.values()}


@pytest.mark.parametrize("code", NOTHING.values(), ids=NOTHING)
def test_nothing_leaves_the_tensors(code: str) -> None:
    assert converted(in_step(code)) == set()


@pytest.mark.parametrize(("code", "expected"), CONVERTED.values(), ids=CONVERTED)
def test_leaves_the_tensors(code: str, expected: set[str]) -> None:
    assert converted(in_step(code)) == expected


@pytest.mark.parametrize(("first", "in_loop", "expected"), OUTLIVING.values(), ids=OUTLIVING)
def test_is_kept_for_longer_than_the_batch(first: str, in_loop: str, expected: set[str]) -> None:
    head, _, loop = in_step(in_loop).partition("for x, y in loader:")
    assert converted(f"{head}{first}\n\nfor x, y in loader:{loop}") == expected


def test_what_is_global_after_a_gather_is_not_converted_again() -> None:
    text = script("for x, y in loader:\n    out = model(x)\n    print((out.argmax(1) == y).float().mean().item())")
    assert converted(text) == set()


def test_an_evaluation_loss_is_converted_where_the_model_computes_it() -> None:
    text = script("class Net(nn.Module):\n    def forward(self, x, y):\n        return F.cross_entropy(x, y)\nnet = Net()\nfor x, y in loader:\n    print(net(x, y).item())")
    assert converted(text) == {"net(x, y)"}


PER_BATCH = {
    "a loss in two parts": "total = loss.detach()\ntotal = total + out.detach().mean()",
    "rows in place": "noisy = x.clone()\nnoisy.add_(x)\nnoisy.mul_(0.5)",
}


@pytest.mark.parametrize("code", PER_BATCH.values(), ids=PER_BATCH)
def test_what_starts_anew_with_each_batch_stays_local(code: str) -> None:
    assert not converted(in_step(code)) & {"loss.detach()", "out.detach().mean()", "x.mean()"}


WINDOWS = {
    "a count of a window": ("seen = 0", "seen += y.numel()\nif seen > 50:\n    print(seen)\n    seen = 0", {"y.numel()"}),
    "a sum of a window, reset with others": ("total, n = 0, 0", "total += loss.detach()\nif n > 5:\n    total, n = 0, 0", {"loss.detach()"}),
    "a sum by key": ("sums = {}", "for k, v in {'a': loss.item()}.items():\n    sums[k] = sums.get(k, 0.0) + v * len(x)", {"loss", "len(x)"}),
    "a rate by a variable": ("right = 3", "rate = right / y.shape[0]\nprint(rate)", {"y.shape[0]"}),
}


@pytest.mark.parametrize(("first", "in_loop", "expected"), WINDOWS.values(), ids=WINDOWS)
def test_counts_are_global_where_they_are_counted(first: str, in_loop: str, expected: set[str]) -> None:
    head, _, loop = in_step(in_loop).partition("for x, y in loader:")
    assert converted(f"{head}{first}\n\nfor x, y in loader:{loop}") == expected


def test_losses_in_a_list_that_is_summed_for_a_backward_pass_keep_their_gradients() -> None:
    steps = "buffer = []\nfor x, y in loader:\n    buffer.append(F.cross_entropy(model(x), y))\n    if len(buffer) == 2:\n        total = sum(buffer) / 2\n        total.backward()\n        optimizer.step()\n        buffer = []"
    assert converted(script(steps)) == set()
