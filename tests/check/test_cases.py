"""Whole scripts that are accelerated wrongly, each in one way that people meet: `# <- rule` marks what is to be reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accel_migrate.check.check import Wanted, check
from accel_migrate.places import line_of
from codemod.memory import program

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))
_MARK = re.compile(r"  # <- ([\w-]+)$", re.MULTILINE)


def expected(text: str) -> set[tuple[int, str]]:
    """The lines that carry a mark, each with the rule that it names."""
    lines = enumerate(text.split("\n"), start=1)
    return {(number, match[1]) for number, line in lines if (match := _MARK.search(line))}


def unmarked_case(text: str) -> str:
    return _MARK.sub("", text)


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_a_wrong_script_is_reported_at_its_line_and_nowhere_else(path: Path) -> None:
    text = path.read_text()
    found = check(program(unmarked_case(text)), Wanted())
    assert {(line_of(fault), fault.rule) for fault in found.faults} == expected(text)


def test_a_collective_is_found_through_calls_and_files() -> None:
    script = """
from accelerate import Accelerator
from saving import finish

accelerator = Accelerator()
if accelerator.is_main_process:
    finish(accelerator, "out")
"""
    saving = """
from evaluation import totals


def finish(accelerator, path):
    write(path, totals(accelerator))


def write(path, figures):
    print(path, figures)
"""
    evaluation = """
import torch


def totals(accelerator):
    return accelerator.reduce(torch.ones(1))
"""
    (fault,) = check(program(script, {"saving": saving, "evaluation": evaluation}), Wanted()).faults
    assert (fault.rule, line_of(fault)) == ("collective-in-rank-guard", 7)
    assert "evaluation.py:6" in fault.message


@pytest.mark.parametrize(
    "guard",
    [
        "if accelerator.num_processes > 1:",
        "if step % 10 == 0:",
        "if accelerator.is_main_process or accelerator.wait_for_everyone():",
        "with accelerator.autocast():",
    ],
)
def test_conditions_that_hold_on_all_processes_guard_nothing(guard: str) -> None:
    text = f"from accelerate import Accelerator\n\naccelerator = Accelerator()\nstep = 0\n{guard}\n    accelerator.wait_for_everyone()\n"
    faults = check(program(text), Wanted()).faults
    assert [line_of(f) for f in faults] == ([5, 6] if " or " in guard else [])


def test_both_branches_may_meet() -> None:
    text = """
from accelerate import Accelerator

accelerator = Accelerator()
if accelerator.is_main_process:
    print("saved")
    accelerator.wait_for_everyone()
else:
    accelerator.wait_for_everyone()
"""
    assert not check(program(text), Wanted()).faults


def test_the_condition_may_be_kept_in_a_variable_or_an_attribute() -> None:
    text = """
from accelerate import Accelerator


class Run:
    def __init__(self):
        self.accelerator = Accelerator()
        self.is_first = self.accelerator.process_index == 0

    def save(self):
        if not self.is_first:
            return
        self.accelerator.wait_for_everyone()


Run().save()
"""
    (fault,) = check(program(text), Wanted()).faults
    assert (fault.rule, line_of(fault)) == ("collective-in-rank-guard", 13)


def test_two_branches_of_one_condition_prepare_once() -> None:
    text = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = torch.nn.Linear(2, 2)
sharded = getattr(accelerator.state, "fsdp_plugin", None) is not None
if sharded:
    model = accelerator.prepare(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sharded:
    optimizer = accelerator.prepare(optimizer)
else:
    model, optimizer = accelerator.prepare(model, optimizer)
"""
    assert not check(program(text), Wanted()).faults


def test_a_function_that_only_runs_before_prepare_sees_the_bare_model() -> None:
    text = """
import torch
from accelerate import Accelerator


def main():
    accelerator = Accelerator()
    model = Net()

    def width():
        return model.width

    print(width())
    model = accelerator.prepare(model)
    MORE


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(2, 2)
        self.width = 2


main()
"""
    assert not check(program(text.replace("MORE", "return model")), Wanted()).faults
    (fault,) = check(program(text.replace("MORE", "return width()")), Wanted()).faults
    assert (fault.rule, line_of(fault)) == ("non-forward-call-on-prepared-model", 11)


def test_an_element_is_taken_from_the_end_of_a_list() -> None:
    text = """
import torch
from accelerate import Accelerator


def kind(models):
    return models[-1].dtype


accelerator = Accelerator()
first, last = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
first = accelerator.prepare(first)
print(kind([first, last]), kind(FULL))
"""
    assert not check(program(text.replace("FULL", "[first, last]")), Wanted()).faults
    (fault,) = check(program(text.replace("FULL", "[last, first]")), Wanted()).faults
    assert line_of(fault) == 7


def test_what_is_unwrapped_where_it_is_wrapped_is_bare() -> None:
    text = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
model = accelerator.prepare(torch.nn.Linear(2, 2))
bare = model.module if hasattr(model, "module") else model
print(bare.in_features)
"""
    assert not check(program(text), Wanted()).faults
    (fault,) = check(program(text.replace("bare.in", "model.in")), Wanted()).faults
    assert line_of(fault) == 8


def test_a_model_that_gathers_for_its_loss_returns_what_is_global() -> None:
    text = """
import torch
import torch.nn.functional as F
from accel_runtime import Accelerator, gather_for_metrics
from torch.utils.data import DataLoader, TensorDataset


class Net(torch.nn.Linear):
    def forward(self, x, y):
        return F.mse_loss(GATHER(super().forward(x)), GATHER(y))


accelerator = Accelerator(split_batches=True)
model, loader = accelerator.prepare(Net(1, 1), DataLoader(TensorDataset(torch.ones(9, 1), torch.ones(9, 1)), batch_size=3))
total = 0.0
for x, y in loader:
    with torch.no_grad():
        total += model(x, y).item()
accelerator.print(total / len(loader))
"""
    assert not check(program(text.replace("GATHER", "gather_for_metrics")), Wanted()).faults
    (fault,) = check(program(text.replace("GATHER", "")), Wanted()).faults
    assert fault.rule == "metric-without-gather"


def test_what_is_reduced_in_place_is_global() -> None:
    text = """
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader

accelerator = Accelerator()
loader = accelerator.prepare(DataLoader(torch.ones(9, 1), batch_size=3))
total = torch.zeros(1)
for x in loader:
    total += x.sum().item()
REDUCE
accelerator.print(total.item())
"""
    assert not check(program(text.replace("REDUCE", "dist.all_reduce(total)")), Wanted()).faults
    assert check(program(text.replace("REDUCE", "")), Wanted()).faults
