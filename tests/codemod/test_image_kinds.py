"""What single kinds of code in image programs become; whole programs are in e2e/programs."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

from accel_migrate.rules import two_loaders
from codemod.memory import migrated

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

use_cuda = torch.cuda.is_available()
device = torch.device("cuda" if use_cuda else "cpu")
data = TensorDataset(torch.randn(20, 3), torch.randint(0, 2, (20,)))
"""
MAKE = """\
loader = DataLoader(data, batch_size=4)
model = nn.Linear(3, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
TRAIN = """\
for x, y in loader:
    x, y = x.to(device), y.to(device)
    output = model(x)
    loss = F.cross_entropy(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
TRAIN_FUNCTION = """\
def train(model, loader, optimizer):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


"""
STEP = """\
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def after(text: str) -> list[str]:
    result = migrated(text)
    assert result.status == "changed", result.reason
    return lines(result.changes[0].after)


def rules(text: str) -> set[str]:
    return {finding.rule for finding in migrated(text).findings}


def test_what_a_training_function_returns_is_prepared_before_it_trains() -> None:
    code = after(HEAD + TRAIN_FUNCTION + MAKE + "model = train(model, loader, optimizer)\n")
    assert code.index("model, optimizer, loader = accelerator.prepare(model, optimizer, loader)") < code.index("model = train(model, loader, optimizer)")


def test_a_loader_is_prepared_before_its_variable_takes_a_wrapper() -> None:
    wrapper = "class Moved:\n    def __init__(self, loader):\n        self.loader = loader\n    def __iter__(self):\n        yield from self.loader\n\n\n"
    make = MAKE.replace("model = nn", "loader = Moved(loader)\nmodel = nn")
    code = after(HEAD + wrapper + make + TRAIN)
    assert code.index("loader = accelerator.prepare(loader)") < code.index("loader = Moved(loader)")


def test_conditional_moves_leave_nothing_behind() -> None:
    code = after(HEAD + MAKE + "for x, y in loader:\n    if use_cuda:\n        x = x.cuda()\n    y = y.cuda() if use_cuda else y\n" + STEP)
    assert "pass" not in code and not any("cuda" in line for line in code)


@pytest.mark.parametrize(
    ("move", "kept"),
    [
        ("x.to(device=device, dtype=torch.float64)", "x = x.to(dtype=torch.float64)"),
        ("x.to(device, torch.float64, non_blocking=True)", "x = x.to(torch.float64)"),
    ],
)
def test_moves_keep_their_types(move: str, kept: str) -> None:
    assert kept in after(HEAD + MAKE + f"for x, y in loader:\n    x = {move}\n" + STEP)


def test_a_device_given_by_keyword_becomes_an_accelerator_given_by_keyword() -> None:
    body = "    for x, y in loader:\n        x = x.to(device)\n" + "".join(f"    {line}\n" for line in STEP.splitlines())
    main = "def main():\n" + "".join(f"    {line}\n" for line in (HEAD.splitlines()[6] + "\n" + MAKE).splitlines())
    code = after(HEAD.replace(HEAD.splitlines()[6] + "\n", "") + f"def train(model, loader, optimizer, device):\n{body}\n\n{main}    train(model, loader, optimizer, device=device)\n\n\nmain()\n")
    assert "train(model, loader, optimizer, accelerator=accelerator)" in code


def test_a_batch_drawn_to_look_at_is_gathered_after_training_only() -> None:
    draw = "images, labels = next(iter(loader))\nprint(labels[0])\n"
    code = after(HEAD + MAKE.replace("model = nn", draw + "model = nn") + TRAIN + draw)
    assert code.count("labels = accelerator.gather_for_metrics(labels)") == 1
    assert code.index("labels = accelerator.gather_for_metrics(labels)") > code.index("accelerator.backward(loss)")


def test_a_batch_drawn_to_train_on_stays_cut() -> None:
    code = after(HEAD + MAKE + "x, y = next(iter(loader))\nfor _ in range(3):\n" + STEP)
    assert not any("gather_for_metrics" in line for line in code)


def test_processes_wait_for_a_file_that_they_load_again() -> None:
    code = after(HEAD + MAKE + TRAIN + 'torch.save(model.state_dict(), "net.pt")\nmodel.load_state_dict(torch.load("net.pt"))\n')
    assert code.index("accelerator.wait_for_everyone()") == code.index('model.load_state_dict(torch.load("net.pt"))') - 1


def test_print_by_another_name_is_guarded() -> None:
    code = after(HEAD + "def report(text, say=print):\n    say(text)\n\n\n" + MAKE + TRAIN + 'report("done")\n')
    assert code[code.index("say(text)") - 1].endswith("is_main_process:")


def test_rows_are_gathered_before_they_are_sliced() -> None:
    code = after(HEAD + MAKE + TRAIN + '    torch.save(output[:2], "first.pt")\n')
    assert 'accelerator.save(accelerator.gather_for_metrics(output)[:2], "first.pt")' in code


def test_a_detached_loss_is_reduced_with_its_graph() -> None:
    code = after(HEAD + MAKE + TRAIN + "print(loss.data)\n")
    assert "accelerator.print(accelerator.global_mean(loss))" in code


def test_numpy_noise_with_the_size_of_the_batch_is_drawn_for_the_global_batch() -> None:
    code = after("import numpy as np\n" + HEAD + MAKE + "for x, y in loader:\n    x = x + torch.tensor(np.random.normal(0, 1, (x.shape[0], 3)))\n" + STEP)
    assert any("accelerator.draw(np.random.normal, 0, 1, (x.shape[0], 3))" in line for line in code)


def test_a_copy_of_a_model_is_not_prepared_for_it() -> None:
    code = after("import copy\n" + HEAD + MAKE.replace("optimizer =", "average = copy.deepcopy(model)\noptimizer =") + TRAIN)
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in code
    assert "model = nn.Linear(3, 2).to(accelerator.device)" in code or "model = nn.Linear(3, 2).to(device)" in code


HELPER = "def hits(output, target):\n    return (output.argmax(1) == target).sum().item()\n\n\n"
EVALUATION = "with torch.no_grad():\n    for x, y in loader:\n        output = model(x)\n        print(hits(output, y))\n"


def test_an_evaluation_leaves_reducing_to_the_helper_that_training_uses_too() -> None:
    code = after(HEAD + HELPER + MAKE + TRAIN + "    print(hits(output, y))\n" + EVALUATION)
    assert "return accelerator.global_sum((output.argmax(1) == target).sum()).item()" in code
    assert not any("gather_for_metrics" in line for line in code)


def test_a_helper_for_slices_and_whole_results_is_reported() -> None:
    whole = "all_x, all_y = data.tensors\nprint(hits(model(all_x), all_y))\n"
    assert rules(HEAD + HELPER + MAKE + TRAIN + "    print(hits(output, y))\n" + whole) == {"shared-helper"}


def test_a_loss_over_two_loaders_is_reported_unless_their_batches_are_alike() -> None:
    more = "other = DataLoader(data, batch_size={})\n"
    train = "for (x, y), (a, b) in zip(loader, other):\n    loss = F.cross_entropy(model(x), y) + F.cross_entropy(model(a), b)\n" + STEP.partition("\n")[2]
    assert rules(HEAD + MAKE + more.format(6) + train) == {"two-loaders"}
    assert rules(HEAD + MAKE + more.format(4) + train) == set()


def test_nothing_is_known_of_the_batches_that_a_call_without_arguments_hands_out() -> None:
    context = SimpleNamespace(facts=SimpleNamespace(of=lambda node: frozenset()))
    assert two_loaders._batch_sizes(context, ast.parse("losses.values()", mode="eval").body) == {None}  # type: ignore[arg-type]


def test_a_generator_over_a_loader_hands_out_its_batches() -> None:
    code = after(HEAD + "def logged(batches):\n    for batch in batches:\n        yield batch\n\n\n" + MAKE + TRAIN.replace("in loader", "in logged(loader)"))
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in code


def test_figures_in_dicts_that_outlive_the_batch_are_reduced_where_they_are_written() -> None:
    step = "def step(batch):\n    x, y = batch\n    return {'loss': F.cross_entropy(model(x), y).detach()}\n\n\n"
    code = after(HEAD + step + MAKE + TRAIN + "with torch.no_grad():\n    results = [step(batch) for batch in loader]\n")
    assert "return {'loss': accelerator.global_mean(F.cross_entropy(model(x), y))}" in code


def test_loss_and_number_of_rows_collected_as_tuples_are_those_of_the_global_batch() -> None:
    step = "def step(x, y):\n    return F.cross_entropy(model(x), y).item(), len(x)\n\n\n"
    code = after(HEAD + step + MAKE + TRAIN + "with torch.no_grad():\n    losses, sizes = zip(*[step(x, y) for x, y in loader])\n")
    assert "return accelerator.global_mean(F.cross_entropy(model(x), y)).item(), accelerator.global_len(x)" in code
