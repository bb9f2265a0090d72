"""`--target accelerate`: the emitted text and the findings. Needs neither torch nor accelerate."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options, Result
from codemod.conftest import Files

SCRIPT = """\
import copy
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = 4
        self.body = nn.Linear(4, 4)

    def forward(self, x):
        return self.body(x)

    def loss(self, x):
        return self(x).mean()

    @torch.no_grad()
    def sample(self, x):
        return self(x)

{definitions}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4, shuffle=True)
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
for (x,) in loader:
    x = x.to(device)
{loss}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
{after}
"""


def migrated(files: Files, target: str = "accelerate", definitions: str = "", before: str = "", loss: str = "loss = model(x).mean()", after: str = "") -> Result:
    parts = {"definitions": dedent(definitions), "before": dedent(before), "after": dedent(after)}
    folder = files({"train.py": SCRIPT.format(loss=indent(dedent(loss), "    "), **parts)})
    return migrate(load_project(folder / "train.py"), Options(target=target))  # type: ignore[arg-type]


def text(result: Result) -> str:
    assert result.status == "changed", result.reason
    return result.changes[0].after


def rules(result: Result) -> set[tuple[str, str]]:
    return {(finding.rule, finding.severity.value) for finding in result.findings}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("print(model.width)", "accelerator.unwrap_model(model).width"),
        ("model.width = 5", "accelerator.unwrap_model(model).width = 5"),
        ("model.sample(torch.ones(1, 4))", "accelerator.unwrap_model(model).sample(torch.ones(1, 4))"),
        ("names = [n for n, _ in model.named_parameters()]", "accelerator.unwrap_model(model).named_parameters()"),
        ("weights = copy.deepcopy(model)", "copy.deepcopy(accelerator.unwrap_model(model))"),
        ("print(isinstance(model, Net))", "isinstance(accelerator.unwrap_model(model), Net)"),
        ("torch.save(model.state_dict(), 'a.pt')", "accelerator.save(accelerator.get_state_dict(model), 'a.pt')"),
        ("torch.save(model, 'a.pt')", "accelerator.save(accelerator.unwrap_model(model), 'a.pt')"),
        ("model.load_state_dict(best)", "accelerator.unwrap_model(model).load_state_dict(best)"),
        ("print(scheduler.last_epoch)", "scheduler.scheduler.last_epoch"),
        ("print(scheduler.get_last_lr())", "scheduler.get_last_lr()"),
        ("print(optimizer.param_groups[0]['lr'])", "optimizer.param_groups[0]['lr']"),
        ("print(loader.batch_size, len(loader.dataset))", "loader.total_batch_size, len(loader.dataset)"),
        ("model.eval()", "\nmodel.eval()"),
    ],
)
def test_what_a_wrapper_hides_is_read_from_inside(files: Files, after: str, expected: str) -> None:
    assert expected in text(migrated(files, after=after))


@pytest.mark.parametrize("before", ["print(model.width)", "shadow = dict(model.named_parameters())", "print(loader.batch_size)"])
def test_what_is_read_before_prepare_stays(files: Files, before: str) -> None:
    after = text(migrated(files, before=before + "\n"))
    assert before.removeprefix("print") in after
    assert "unwrap_model" not in after


@pytest.mark.parametrize("loss", ["loss = model.loss(x)", "loss = model.body(x).mean()"])
def test_training_around_forward_is_an_error(files: Files, loss: str) -> None:
    result = migrated(files, loss=loss)
    assert ("accelerate-models", "error") in rules(result)
    assert "unwrap_model" not in text(result)
    assert ("accelerate-models", "error") not in rules(migrated(files, target="accel_runtime", loss=loss))


def test_a_helper_that_only_looks_is_given_the_model_inside(files: Files) -> None:
    helper = """
    def names(net):
        return [name for name, _ in net.named_parameters()]


    def main():
        device = torch.device("cpu")
        loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4)
        model = Net().to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in loader:
            loss = model(x.to(device)).mean()
            loss.backward()
            optimizer.step()
            print(names(model))


    main()
    """
    folder = files({"train.py": SCRIPT.partition("{definitions}")[0] + dedent(helper)})
    after = text(migrate(load_project(folder / "train.py"), Options(target="accelerate")))
    assert "names(accelerator.unwrap_model(model))" in after
    assert "in net.named_parameters()" in after


def test_a_layer_in_a_gathered_line_is_reached_too(files: Files) -> None:
    after = "codes = []\nwith torch.no_grad():\n    for (x,) in loader:\n        codes.append(model.body(x).numpy())"
    assert "accelerator.gather_for_metrics(accelerator.unwrap_model(model).body(x))" in text(migrated(files, after=after))


def test_noise_of_numpy_is_cut_by_numpy(files: Files) -> None:
    result = migrated(files, definitions="import numpy as np", loss="noise = torch.tensor(np.random.rand(x.size(0), 4))\nloss = model(x + noise).mean()")
    assert "np.array_split(np.random.rand(accelerator.num_processes * x.size(0), 4), accelerator.num_processes)[accelerator.process_index]" in text(result)


def test_the_global_batch_is_asked_for_as_accelerate_listens(files: Files) -> None:
    """`Accelerator(split_batches=True)` is ignored by accelerate 1.15."""
    after = text(migrated(files))
    assert "Accelerator(dataloader_config=DataLoaderConfiguration(split_batches=True))" in after
    assert "from accelerate.utils import DataLoaderConfiguration" in after
    assert "Accelerator(split_batches=True)" in text(migrated(files, target="accel_runtime"))


def test_metric_schedulers_stay_out_of_prepare(files: Files) -> None:
    after = text(migrated(files, before="plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"))
    assert "model, optimizer, loader, scheduler = accelerator.prepare(" in after


def test_noise_is_cut_from_the_noise_of_the_global_batch(files: Files) -> None:
    result = migrated(files, loss="noise = torch.randn(x.size(0), 4)\nloss = model(x + noise).mean()")
    assert "torch.randn(accelerator.num_processes * x.size(0), 4).chunk(accelerator.num_processes)[accelerator.process_index]" in text(result)
    assert not rules(result)


@pytest.mark.parametrize(
    ("loss", "finding"),
    [
        ("loss = model(x + torch.randn_like(x)).mean()", ("accelerate-draws", "warning")),
        ("y = x.long()[:, 0]\nloss = nn.functional.cross_entropy(model(x), y, ignore_index=-1)", ("weighted-mean", "warning")),
        ("head = nn.BatchNorm1d(4)\nloss = head(model(x)).mean()", ("accelerate-limits", "warning")),
        ("optimizer.step(lambda: model(x).mean())\nloss = model(x).mean()", ("accelerate-limits", "error")),
    ],
)
def test_what_accelerate_computes_otherwise_is_named(files: Files, loss: str, finding: tuple[str, str]) -> None:
    assert finding in rules(migrated(files, loss=loss))
    assert finding[0].partition("-")[0] not in {rule.partition("-")[0] for rule, _ in rules(migrated(files, target="accel_runtime", loss=loss))}


def test_summed_losses_keep_their_gradient(files: Files) -> None:
    assert "accelerator.backward(loss * accelerator.num_processes)" in text(migrated(files, loss="loss = model(x).sum()"))


def test_the_report_says_where_numbers_differ(files: Files) -> None:
    notes = "\n".join(migrated(files).notes)
    for words in ("train.py:25", "order of samples", "first samples", "multiple of the number of processes (here 4)", "ACCELERATE_USE_CPU"):
        assert words in notes
    assert not any("Accelerate" in note for note in migrated(files, target="accel_runtime").notes)


def test_the_result_is_left_alone(files: Files) -> None:
    folder = files({"train.py": text(migrated(files, after="print(model.width, loader.batch_size, scheduler.last_epoch)"))})
    assert migrate(load_project(folder / "train.py"), Options(target="accelerate")).status == "unchanged"


def test_a_loader_whose_sampler_shares_out_stays_out_of_prepare(files: Files) -> None:
    script = """\
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler

    dist.init_process_group("gloo")
    device = torch.device("cpu")
    data = torch.randn(8, 4)
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    model = DDP(torch.nn.Linear(4, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for x in loader:
        loss = model(x.to(device)).mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
    torch.save(model.module.state_dict(), "a.pt")
    """
    folder = files({"train.py": dedent(script)})
    after = text(migrate(load_project(folder / "train.py"), Options(target="accelerate")))
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in after
    assert "model(x.to(accelerator.device))" in after
    assert "accelerator.unwrap_model(model).state_dict()" in after


def test_what_a_wrapper_made_in_one_statement_held_is_unwrapped(files: Files) -> None:
    """`net = DDP(Net())` leaves no other name for the model inside."""
    script = """\
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler


    class Net(torch.nn.Linear):
        pass


    dist.init_process_group("gloo")
    data = torch.randn(8, 4)
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    net = DDP(Net(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i, x in enumerate(loader):
        with net.no_sync():
            net(x).mean().backward()
        optimizer.step()
    torch.save(net.module.state_dict(), "a.pt")
    """
    folder = files({"train.py": dedent(script)})
    after = text(migrate(load_project(folder / "train.py"), Options(target="accelerate")))
    assert 'torch.save(accelerator.unwrap_model(net).state_dict(), "a.pt")' in after


def test_state_before_the_accelerator_is_named(files: Files) -> None:
    script = """\
    import argparse
    import torch
    from torch.utils.data import DataLoader


    def train(lr):
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loader = DataLoader(torch.randn(8, 4), batch_size=2)
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        for x in loader:
            loss = model(x.to(device)).mean()
            loss.backward()
            optimizer.step()


    def main():
        print("starting")
        train(0.1)
        print("done")


    main()
    """
    folder = files({"train.py": dedent(script)})
    result = migrate(load_project(folder / "train.py"), Options(target="accelerate"))
    assert 'PartialState().print("starting")' in text(result)
    assert [(f.rule, f.node.lineno) for f in result.findings] == [("early-state", 18)]
    assert not migrate(load_project(folder / "train.py"), Options()).findings
