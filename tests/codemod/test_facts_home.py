"""Where the accelerator is made: at the device choice, or else before what is trained; always where all training sees it."""

from __future__ import annotations

import pytest

from accel_migrate.facts.home import possible_homes
from codemod.marked import START, STEP, marked_lines, script
from codemod.memory import after, facts_of, migrated

CHOICES = {
    "at the device": "device = torch.device('cuda')  # <-\n" + STEP,
    "at a device that is chosen by condition": "device = 'cuda' if torch.cuda.is_available() else 'cpu'  # <-\n" + STEP,
    "at the first device of two": "device = torch.device('cuda')  # <-\nother = torch.device('cuda')\n" + STEP,
    "not at a string that is no device": "device = 'train'\nnet = nn.Linear(8, 2)\n" + STEP,
}
FUNCTION = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{before}
def main():
    loader = DataLoader(TensorDataset(torch.randn(9, 8)), batch_size=3)
{device}    model = nn.Linear(8, 2){mark}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

main()
"""
NOWHERE = {
    "no optimizer": "for x, y in loader:\n    model(x).sum().backward()",
    "no backward pass": "for x, y in loader:\n    model(x)",
}


def first_home(text: str) -> int | None:
    home = next(possible_homes(facts_of(text)), None)
    return home.anchor.lineno if home is not None else None


@pytest.mark.parametrize("code", CHOICES.values(), ids=CHOICES)
def test_the_accelerator_is_made(code: str) -> None:
    text = script(code)
    model = START.split("\n").index("model = nn.Sequential(nn.Linear(8, 2))") + 1
    assert first_home(text) == min(marked_lines(text), default=model)


def test_without_a_device_it_is_made_before_the_model() -> None:
    text = FUNCTION.format(before="", device="", mark="  # <-")
    assert {first_home(text)} == marked_lines(text)


def test_a_device_in_the_function_that_makes_the_model_is_preferred() -> None:
    text = FUNCTION.format(before="DEVICE = torch.device('cpu')\n", device="    device = torch.device('cuda')  # <-\n", mark="")
    assert {first_home(text)} == marked_lines(text)


def test_a_device_at_the_top_serves_all_functions() -> None:
    text = FUNCTION.format(before="DEVICE = torch.device('cuda')  # <-\n", device="", mark="")
    assert {first_home(text)} == marked_lines(text)


def test_a_device_inside_a_model_is_no_home() -> None:
    net = "class Net(nn.Module):\n    def forward(self, x):\n        device = torch.device('cuda')\n        return x.to(device)\n\n"
    text = FUNCTION.format(before=net, device="", mark="  # <-")
    assert {first_home(text)} == marked_lines(text)


@pytest.mark.parametrize("code", NOWHERE.values(), ids=NOWHERE)
def test_what_trains_nothing_has_no_home(code: str) -> None:
    bare = START.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    assert migrated(f"{bare}\n{code}\n").status == "refused"


PARSED = "args = argparse.ArgumentParser().parse_args()\n"
SETTINGS = {
    "in the function": ("import argparse\n", f"    {PARSED}", ".to(args.device)"),
    "under another name": ("import argparse\n", f"    {PARSED}    device = args.device\n", ".to(device)"),
    "around the function": (f"import argparse\n{PARSED}", "", ".to(args.device)"),
}


@pytest.mark.parametrize(("before", "device", "move"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_to_which_the_model_is_moved_can_keep_the_script_on_the_cpu(before: str, device: str, move: str) -> None:
    text = FUNCTION.format(before=before, device=device, mark=move)
    assert '    accelerator = Accelerator(cpu=args.device == "cpu", split_batches=True)' in after(migrated(text)).splitlines()


GUARDED = """\
import argparse
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--cuda", action="store_false")
parser.add_argument("--gpus", type=int, default=1)
args = parser.parse_args()
use_cuda = torch.cuda.is_available()
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randint(2, (96,))), batch_size=32)
model = nn.Linear(8, 2)
if {test}:
    {move}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("test", "move", "expected"),
    [
        ("args.cuda", "model.cuda()", "Accelerator(cpu=not args.cuda, "),
        ("args.cuda and torch.cuda.is_available()", "model = model.to('cuda:0')", "Accelerator(cpu=not args.cuda, "),
        ("torch.cuda.is_available()", "model.cuda()", "Accelerator(split_batches=True)"),
        ("use_cuda", "model.cuda()", "Accelerator(split_batches=True)"),
        ("args.cuda", "model.double()", "Accelerator(split_batches=True)"),
    ],
)
def test_a_flag_around_the_move_of_the_model_decides_about_the_cpu(test: str, move: str, expected: str) -> None:
    assert expected in after(migrated(GUARDED.format(test=test, move=move) + STEP))


GUARD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randint(2, (96,))), batch_size=32)
{above}
if __name__ == "__main__":
    {made}
    for x, y in loader:
        for model, optimizer in zip(models, optimizers):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
"""
NETS = "models = [nn.Linear(8, 2), nn.Linear(8, 2)]"
STEPPERS = "optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in models]"


def test_a_loader_above_the_guard_is_prepared_in_it() -> None:
    made = "model = nn.Linear(8, 2)\n    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n    models, optimizers = [model], [optimizer]"
    text = after(migrated(GUARD.format(above="", made=made)))
    assert "    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in text


def test_models_in_lists_above_the_guard_are_made_behind_the_accelerator() -> None:
    text = after(migrated(GUARD.format(above=f"{NETS}\n{STEPPERS}", made="pass")))
    assert text.index("\naccelerator = Accelerator(") < text.index("models = [accelerator.prepare(")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ('device = torch.device("cpu" if args.cpu else "cuda")', "Accelerator(cpu=args.cpu, "),
        ('device = torch.device("cpu" if args.cpu or not torch.cuda.is_available() else "cuda")', "Accelerator(cpu=args.cpu, "),
        ('device = torch.device("cpu" if not args.cuda else "cuda:0")', "Accelerator(cpu=not args.cuda, "),
        ('device = "cpu" if not torch.cuda.is_available() else "cuda"', "Accelerator(split_batches=True)"),
        ('device = torch.device("cuda" if not args.cpu else "cpu")', "Accelerator(cpu=args.cpu, "),
        ('if args.cpu:\n    device = torch.device("cpu")\nelse:\n    device = torch.device("cuda")', "Accelerator(cpu=args.cpu, "),
    ],
)
def test_a_choice_that_names_the_cpu_first_is_not_turned_around(choice: str, expected: str) -> None:
    start = GUARDED.partition("use_cuda")[0]
    made = "loader = DataLoader(TensorDataset(torch.randn(96, 8), torch.randint(2, (96,))), batch_size=32)\nmodel = nn.Linear(8, 2).to(device)\n"
    optimizer = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    assert expected in after(migrated(f"{start}{choice}\n{made}{optimizer}{STEP}"))
