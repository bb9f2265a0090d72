"""What right scripts do in their own ways, and is left alone; each beside the fault that it looks like."""

from __future__ import annotations

from textwrap import indent

import pytest

from accel_migrate.check.check import Wanted, check
from codemod.memory import program

HEAD = """
import torch
import torch.nn.functional as F
from accelerate import Accelerator, DataLoaderConfiguration
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
data = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
"""


def rules(text: str) -> list[str]:
    """The rules that report errors or warnings, once for each report."""
    return [f.rule for f in check(program(HEAD + text), Wanted()).faults if f.severity.value != "info"]


def test_a_frozen_model_gets_no_wrapper() -> None:
    text = "judge = nn.Linear(8, 2)\nFREEZE\njudge = accelerator.prepare(judge)\nprint(judge.in_features)\n"
    assert not rules(text.replace("FREEZE", "judge.requires_grad_(False)"))
    assert rules(text.replace("FREEZE", "")) == ["non-forward-call-on-prepared-model"]
    assert not rules("from judges import load\n" + text.replace("nn.Linear(8, 2)", "load()").replace("FREEZE", "judge.requires_grad_(False)"))
    part = "from judges import load\n" + text.replace("nn.Linear(8, 2)", "load()").replace("FREEZE", "judge.encoder.requires_grad_(False)")
    assert rules(part) == ["non-forward-call-on-prepared-model"]
    more = "judge.requires_grad_(False)\njudge.bias.requires_grad_(True)"
    assert rules(text.replace("FREEZE", more)) == ["non-forward-call-on-prepared-model"]


def test_an_average_in_a_trainer_is_not_wrapped() -> None:
    text = TRAINER.replace("self.model = model", "self.model = EMA(model, include_online_model=ONLINE)").replace("BEFORE", "pass").replace("AFTER", "pass")
    text = "from ema_pytorch import EMA\n" + text.replace("WIDTH", "self.model.initted")
    assert not rules(text.replace("ONLINE", "False"))
    assert rules(text.replace("ONLINE", "True")) == ["non-forward-call-on-prepared-model"]


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("accelerator.prepare_model(judge, evaluation_mode=True)", id="for evaluation"),
        pytest.param("EMA(judge, include_online_model=False)\njudge = accelerator.prepare(judge)", id="an average kept apart"),
    ],
)
def test_what_prepare_does_not_wrap(made: str) -> None:
    assert not rules(f"from ema_pytorch import EMA\n\njudge = nn.Linear(8, 2)\njudge = {made}\nprint(judge.in_features)\n")


def test_a_table_of_models_is_no_model() -> None:
    text = "from parts import build\n\nmodel = build()\nUSE\nmodel = accelerator.prepare(model)\nprint(model.decoder)\n"
    assert not rules(text.replace("USE", "_ = [model[name].train() for name in model]"))
    assert rules(text.replace("USE", "model.train()")) == ["non-forward-call-on-prepared-model"]


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ("deepspeed_plugin=DeepSpeedPlugin(zero_stage=2)", 0),
        ("fsdp_plugin=FullyShardedDataParallelPlugin()", 0),
        ("fsdp_plugin=None", 1),
    ],
)
def test_wrappers_of_deepspeed_and_fsdp_hand_attributes_on(setting: str, reported: int) -> None:
    text = f"from accelerate import DeepSpeedPlugin, FullyShardedDataParallelPlugin\n\naccelerator = Accelerator({setting})\nmodel = accelerator.prepare(nn.Linear(8, 2))\nprint(model.in_features)\n"
    assert len(rules(text)) == reported


TRAINER = """
class Trainer:
    def __init__(self, model):
        self.accelerator = Accelerator()
        self.model = model
        BEFORE
        self.model = self.accelerator.prepare(self.model)
        AFTER

    def width(self):
        return WIDTH


print(Trainer(nn.Linear(8, 2)).width())
"""


@pytest.mark.parametrize(
    ("before", "after", "width", "reported"),
    [
        pytest.param("self.n = self.model.in_features", "pass", "self.n", 0, id="read above prepare"),
        pytest.param("pass", "self.n = self.model.in_features", "self.n", 1, id="read below it"),
        pytest.param("pass", "self.many = True", "self.model.module.in_features if self.many else self.model.in_features", 0, id="the wrapper in the other branch"),
        pytest.param("pass", "self.many = True", "self.accelerator.unwrap_model(self.model).in_features if self.many else self.model.in_features", 0, id="unwrapped in the other branch"),
        pytest.param("pass", "if self.accelerator.sync_gradients:\n            print(self.model.in_features)\n            print(self.model.module)", "8", 1, id="unwrapped beside it"),
        pytest.param("pass", "self.many = True", "8 if self.many else self.model.in_features", 1, id="no wrapper in it"),
    ],
)
def test_an_attribute_of_a_trainer(before: str, after: str, width: str, reported: int) -> None:
    text = TRAINER.replace("BEFORE", before).replace("AFTER", after).replace("WIDTH", width)
    assert rules(text).count("non-forward-call-on-prepared-model") == reported
    decorated = text.replace("class Trainer", "@unwraps_models\nclass Trainer")
    assert rules(decorated.replace("unwraps_models", "registered")) == rules(text)
    assert not rules("from somewhere import auto_unwrap\n" + decorated.replace("unwraps_models", "auto_unwrap()"))


GUARDED = """
model = accelerator.prepare(nn.Linear(8, 2))


def show(net, total=False):
    with torch.no_grad():
        print(net(torch.ones(1, 8)))
    if total:
        accelerator.reduce(torch.ones(1))


show(model)
if accelerator.is_main_process:
    show(ARGUMENTS)
"""


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ("accelerator.unwrap_model(model)", []),
        ("model", ["prepared-object-in-rank-guard"]),
        ("accelerator.unwrap_model(model), total=True", ["collective-in-rank-guard"]),
    ],
)
def test_a_call_is_judged_by_its_own_arguments(arguments: str, reported: list[str]) -> None:
    assert rules(GUARDED.replace("ARGUMENTS", arguments)) == reported


def test_in_turn_the_processes_come_one_after_the_other() -> None:
    text = "model = accelerator.prepare(nn.Linear(8, 2))\nwith accelerator.main_process_first():\n    BODY\n"
    found = check(program(HEAD + text.replace("BODY", "accelerator.load_state('a')")), Wanted()).faults
    assert [(f.severity.value, "FSDP" in f.message) for f in found] == [("warning", True)]
    found = check(program(HEAD + text.replace("BODY", "accelerator.reduce(torch.ones(1))")), Wanted()).faults
    assert [f.severity.value for f in found] == ["error"]


SAVES = """
import os
import uuid
from megatron import parallel

model, loader = accelerator.prepare(nn.Linear(8, 2), DataLoader(data, batch_size=8))
BODY
"""


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("os.mkdir(f'run-{uuid.uuid4()}')", 0),
        ("os.mkdir('run')", 1),
        ("if parallel.get_data_parallel_rank() == 0:\n    torch.save(1, 'a.pt')", 0),
        ("if parallel.get_size() == 0:\n    torch.save(1, 'a.pt')", 1),
        ("for x, y in loader:\n    torch.save(x, f'{y[0]}.pt')", 0),
        ("for i, (x, y) in enumerate(loader):\n    torch.save(x, f'{i}.pt')", 1),
    ],
)
def test_who_writes_the_same_file(body: str, reported: int) -> None:
    assert rules(SAVES.replace("BODY", body)).count("unguarded-save") == reported


def test_a_function_that_nothing_calls_tells_nothing_of_the_others() -> None:
    text = "model = accelerator.prepare(nn.Linear(8, 2))\n\n\ndef write(x):\n    torch.save(x, 'a.pt')\n\n\ndef unused(x):\n    write(x)\n\n\nif accelerator.is_main_process:\n    write(1)\n"
    assert not rules(text)
    assert rules(text + "write(2)\n") == ["unguarded-save"]


def test_an_imported_function_whose_callers_are_not_seen() -> None:
    text = "from saving import TABLE\n\nmodel = accelerator.prepare(nn.Linear(8, 2))\nif accelerator.is_main_process:\n    TABLE['a'](1)\n"
    saving = "import torch\n\n\ndef write(x):\n    torch.save(x, 'a.pt')\n\n\nTABLE = {'a': write}\n"
    assert not check(program(HEAD + text, {"saving": saving}), Wanted()).faults
    called = program(HEAD + text + "from saving import write\nwrite(2)\n", {"saving": saving})
    assert [f.rule for f in check(called, Wanted()).faults] == ["unguarded-save"]


@pytest.mark.parametrize(("first", "reported"), [("resume(steps)", 0), ("max(0, steps - 2)", 1)])
def test_a_bound_is_counted_by_arithmetic(first: str, reported: int) -> None:
    text = f"from saving import resume\n\nmodel, loader = nn.Linear(8, 2), DataLoader(data, batch_size=8)\nsteps = len(loader)\nfirst = {first}\nmodel, loader = accelerator.prepare(model, loader)\nfor _ in range(first):\n    accelerator.backward(model(next(iter(loader))[0]).sum())\n"
    assert rules(text).count("length-before-prepare") == reported


GATHER = """
model, loader = accelerator.prepare(nn.Linear(8, 2), DataLoader(data, batch_size=8))
kept = []
for x, y in loader:
    with torch.no_grad():
        loss = F.cross_entropy(model(x), y)
    GATHER
print(kept)
"""


@pytest.mark.parametrize(
    ("gather", "reported"),
    [
        ("kept.append(accelerator.gather(loss))", 0),
        ("kept.append(accelerator.gather(loss.repeat(8)))", 1),
        ("kept.append(accelerator.gather(model(x)))", 1),
        ("unread = accelerator.gather(y)", 0),
    ],
)
def test_one_figure_of_each_process_is_no_row(gather: str, reported: int) -> None:
    assert rules(GATHER.replace("GATHER", gather)).count("use-gather-for-metrics") == reported


def test_what_one_process_draws_for_all() -> None:
    text = "import numpy as np\nfrom accelerate.utils import broadcast\n\nnp.random.seed(accelerator.process_index)\norder = np.random.permutation(9)\nSHARE\n"
    assert not rules(text.replace("SHARE", "order = broadcast(torch.tensor(order))"))
    assert rules(text.replace("SHARE", "")) == ["rank-dependent-dataset-construction"]


NET = """
def exists(value):
    return value is not None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.style, self.body = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x, noise=None):
        if not exists(noise):
            noise = torch.randn(8)
        if TEST:
            x = self.style(x)
        y = self.body(x).abs() if noise[0] > 1 else self.body(x).tanh()
        return self.body(x) + noise.sum()


model = accelerator.prepare(Net())
"""


@pytest.mark.parametrize(("test", "reported"), [("exists(noise)", 0), ("noise is not None", 0), ("noise[0] > 0", 1)])
def test_whether_a_value_was_given_is_not_drawn(test: str, reported: int) -> None:
    assert rules(NET.replace("TEST", test)).count("random-control-flow") == reported


STEP = """
model, optimizer, loader = accelerator.prepare(nn.Linear(8, 2), torch.optim.SGD([torch.ones(1)], lr=0.1), DataLoader(data, batch_size=8))
for x, y in loader:
    with accelerator.accumulate(model):
        BODY
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("loss = F.cross_entropy(model(x), y)\nif len(loader) == 1:\n    optimizer.zero_grad()\n    continue", []),
        ("optimizer.zero_grad()\nloss = F.cross_entropy(model(x), y)", ["zero-grad-before-backward-in-accumulate"]),
        ("try:\n    loss = F.cross_entropy(model(x), y)\nexcept RuntimeError as e:\n    if 'memory' not in str(e):\n        raise\n    continue", ["swallowed-exception"]),
        ("try:\n    loss = F.cross_entropy(model(x), y)\nexcept RuntimeError:\n    print(x)\n    raise", []),
    ],
)
def test_a_step_that_is_given_up(body: str, reported: list[str]) -> None:
    assert rules(STEP.replace("BODY", indent(body, " " * 8).lstrip())) == reported


def test_accumulate_counts_once_for_each_call() -> None:
    text = "a, b = accelerator.prepare(nn.Linear(8, 2), nn.Linear(8, 2))\nfor _ in range(9):\n    with ACC:\n        accelerator.backward(a(torch.ones(8)).sum() + b(torch.ones(8)).sum())\n"
    assert rules(text.replace("ACC", "accelerator.accumulate(a), accelerator.accumulate(b)")) == ["multi-model-accumulate"]
    assert not rules(text.replace("ACC", "accelerator.accumulate(a, b)"))


@pytest.mark.parametrize(
    ("checkpointing", "severity"),
    [
        ("model.gradient_checkpointing_enable()", "info"),
        ("model.gradient_checkpointing_enable({'use_reentrant': True})", "info"),
        ("model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={'use_reentrant': True})", "warning"),
        ("checkpoint(model, torch.ones(8), **settings)", ""),
        ("if torch_version() > 1:\n    pass\nelse:\n    checkpoint(model, torch.ones(8))", ""),
        ("checkpoint(model, torch.ones(8))", "warning"),
    ],
)
def test_reentrant_by_default_or_by_an_argument(checkpointing: str, severity: str) -> None:
    text = f"from accelerate import DistributedDataParallelKwargs\nfrom torch.utils.checkpoint import checkpoint\nfrom somewhere import Net, settings, torch_version\n\naccelerator = Accelerator(kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)])\nmodel = Net()\n{checkpointing}\n"
    found = check(program(HEAD + text), Wanted(select=frozenset({"reentrant-checkpoint-with-ddp"}))).faults
    assert [f.severity.value for f in found] == [severity][: bool(severity)]


def test_names_that_a_loop_collects_itself() -> None:
    text = "model = accelerator.prepare(nn.Linear(8, 2))\nseen = []\nfor name, p in model.named_parameters():\n    if name not in seen:\n        ADD\n"
    assert not rules(text.replace("ADD", "seen.append(name)"))
    assert rules(text.replace("ADD", "print(p)")) == ["ema-needs-unwrapped-model"]


def test_samples_that_the_model_made_are_the_processes_own() -> None:
    text = "model = accelerator.prepare(nn.Linear(8, 2))\n\n\ndef learn(rows):\n    loader = DataLoader(rows, batch_size=8)\n    for x in loader:\n        accelerator.backward(model(x).sum())\n\n\nwhile True:\n    learn(ROWS)\n"
    assert not rules(text.replace("ROWS", "[model(torch.ones(8)) for _ in range(9)]"))
    assert rules(text.replace("ROWS", "data")) == ["loader-not-prepared"]


METRIC = """
import torch.distributed as dist

model, loader = accelerator.prepare(nn.Linear(8, 2), DataLoader(data, batch_size=8))


def joined(value):
    every = [None, None]
    dist.all_gather_object(every, value)
    return every


kept = []
for x, y in loader:
    kept.append(MADE)
print(kept)
"""


@pytest.mark.parametrize(("made", "reported"), [("joined(y.tolist())", 0), ("y.tolist()", 1)])
def test_a_function_that_gathers(made: str, reported: int) -> None:
    assert rules(METRIC.replace("MADE", made)).count("metric-without-gather") == reported


@pytest.mark.parametrize(
    ("setting", "reported"),
    [
        ("split_batches=True", ["accelerator-arguments", "plateau-prepared"]),
        ("dataloader_config=DataLoaderConfiguration(split_batches=True)", []),
    ],
)
def test_an_argument_without_effect_is_no_setting(setting: str, reported: list[str]) -> None:
    text = f"accelerator = Accelerator({setting})\noptimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)\nplateau = accelerator.prepare(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))\n"
    assert rules(text) == reported


UNSEEN = """
from utilities import everything

model, optimizer, loader = everything()
model, optimizer = accelerator.prepare(model, optimizer)
for batch in loader:
    loss = model(**batch).loss
    BODY
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("accelerator.backward(loss)", []),
        ("loss.backward()", ["raw-backward"]),
        ("if torch.isnan(loss):\n        continue\n    accelerator.backward(loss)", ["data-dependent-skip"]),
        ("accelerator.backward(loss)\n    if loss.item() < 0.1:\n        break", ["rank-dependent-loop-exit"]),
        ("accelerator.backward(loss)\n    total = accelerator.reduce(loss)\n    if total < 0.1:\n        break", []),
        ("accelerator.backward(loss)\n    if loss is None:\n        break", []),
    ],
)
def test_the_loss_is_the_processes_own_wherever_the_data_come_from(body: str, reported: list[str]) -> None:
    assert rules(UNSEEN.replace("BODY", body)) == reported


def test_a_loss_that_is_made_global_before_it_is_asked_is_no_own_one() -> None:
    training = "model = nn.Linear(8, 2)\noptimizer = torch.optim.SGD(model.parameters())\nmodel, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, 8))\nfor x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    if ASKED < 0.1:\n        break\n    accelerator.backward(loss)\n    optimizer.step()\n"
    assert not rules(training.replace("ASKED", "accelerator.gather(loss).mean().item()"))
    assert rules(training.replace("ASKED", "loss.item()")) == ["rank-dependent-loop-exit"]
