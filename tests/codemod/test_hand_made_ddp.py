"""Processes made by hand: what goes, what becomes the accelerator's, and what must stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel_migrate.migrate import migrate
from accel_migrate.project import load_project
from accel_migrate.result import Options
from codemod.memory import after, migrated

START = """\
import argparse
import os
import contextlib
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
"""
BODY = """\
    dataset = TensorDataset(torch.randn(96, 8), torch.randint(2, (96,)))
    loader = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))
    model = nn.Linear(8, 2)
    model = DDP(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


def launched(code: str = "", body: str = BODY, before: str = "") -> str:
    """A script under torchrun with `code` after its training loop."""
    inner = "\n".join(f"    {line}" for line in code.splitlines())
    return f"{START}\n{before}\n\ndef main():\n    dist.init_process_group('gloo')\n{body}{inner}\n\n\nmain()\n"


def result(text: str, options: Options | None = None) -> str:
    found = migrated(text, options)
    assert found.status == "changed", found.reason
    return after(found)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("if dist.get_rank() == 0:\n    print(loss)", "if accelerator.is_main_process:\n"),
        ("dist.barrier()", "accelerator.wait_for_everyone()"),
        ("if dist.is_initialized():\n    dist.destroy_process_group()", "        optimizer.step()\n    accelerator.end_training()\n"),
        ("t = loss.detach()\ndist.all_reduce(t)\nprint(t)", 't = accelerator.reduce(t, reduction="sum")'),
        ("t = loss.detach()\ndist.all_reduce(t, op=dist.ReduceOp.AVG)\nprint(t)", 't = accelerator.reduce(t, reduction="mean")'),
        ("t = loss.detach()\ndist.all_reduce(t, op=dist.ReduceOp.MAX)\nprint(t)", "if accelerator.use_distributed:\n        dist.all_reduce(t"),
        ("if dist.is_initialized():\n    dist.broadcast(loss, 0)", "if accelerator.use_distributed:\n        dist.broadcast(loss, 0)"),
        ("parts = [torch.zeros(4) for _ in range(2)]\ny = torch.ones(4)\ndist.all_gather(parts, y)\nprint(torch.cat(parts))", "print(accelerator.gather(y))"),
        ("names = [None] * 2\ndist.all_gather_object(names, 'a')\nprint(names)", "names = gather_object(['a'])\n"),
        ("torch.save(model.module.state_dict(), 'm.pt')", "torch.save(model.state_dict(), 'm.pt')"),
        ("m = model.module if hasattr(model, 'module') else model\nprint(m)", "m = model\n"),
        ("if isinstance(model, DDP):\n    model = model.module\nprint(model)", "        optimizer.step()\n    print(model)"),
        ("x = x.to(dist.get_rank())\nprint(x)", "x = x.to(accelerator.device)"),
        ("size = dist.get_world_size()\nprint(size)", "size = accelerator.num_processes"),
    ],
)
def test_one_line(code: str, expected: str) -> None:
    assert expected in result(launched(code))


def test_a_wrapper_of_another_name_is_the_model() -> None:
    body = BODY.replace("    model = DDP(model)", "    ddp_model = DDP(model)").replace("model(x)", "ddp_model(x)")
    text = result(launched(body=body))
    assert "ddp_model" not in text


def test_settings_of_the_wrapper_that_accelerate_needs() -> None:
    body = BODY.replace("DDP(model)", "DDP(model, find_unused_parameters=True)")
    assert "kwargs_handlers" not in result(launched(body=body))
    text = result(launched(body=body), Options(target="accelerate"))
    assert "kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]" in text


def test_schedulers_tick_as_the_script_counts() -> None:
    body = BODY.replace("    for x", "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n    for x")
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in result(launched("scheduler.step()", body))


def test_the_processes_means_are_averaged_as_ddp_does() -> None:
    body = BODY.replace("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x), y, ignore_index=0)")
    assert "accelerator.backward(loss)\n" in result(launched(body=body))


def test_accumulation_without_synchronisation() -> None:
    body = BODY.replace("        loss.backward()", "        with model.no_sync():\n            loss.backward()")
    assert "with accelerator.no_sync(model):\n" in result(launched(body=body))


def test_helpers_of_the_group_go_with_their_calls() -> None:
    helpers = """
def setup():
    os.environ['MASTER_PORT'] = '1234'
    dist.init_process_group('gloo')


def cleanup():
    dist.destroy_process_group()


def is_main():
    return dist.get_rank() == 0
"""
    text = launched("if is_main():\n    print(loss)\ncleanup()", before=helpers).replace("    dist.init_process_group('gloo')\n    dataset", "    setup()\n    dataset")
    got = result(text)
    assert not {word for word in ("setup", "cleanup", "is_main()", "import os", "dist.") if word in got}
    assert got.endswith("    accelerator.end_training()\n\n\nmain()\n")


def test_a_helper_that_others_cannot_do_without_stays() -> None:
    helpers = "class Meter:\n    def sync(self):\n        if not dist.is_initialized():\n            return\n        dist.barrier()\n"
    got = result(launched("Meter().sync()", before=helpers))
    assert helpers in got


def test_a_star_function_gets_no_accelerator() -> None:
    helpers = "def save(*args, **kwargs):\n    if not dist.is_initialized() or dist.get_rank() == 0:\n        torch.save(*args, **kwargs)\n"
    assert helpers in result(launched("save(model.state_dict(), 'm.pt')", before=helpers))


def test_the_number_of_devices_a_script_divides_by_is_that_of_processes() -> None:
    got = result(launched("n = torch.cuda.device_count()\nprint(loss.item() / n)"))
    assert "print(loss.item() / accelerator.num_processes)" in got
    assert "device_count" not in got


def test_variables_that_start_as_one_process_go() -> None:
    before = "args = argparse.Namespace()\nargs.distributed = False\nargs.world_size = 1\nif 'WORLD_SIZE' in os.environ:\n    args.distributed = int(os.environ['WORLD_SIZE']) > 1\n"
    setup = "    if args.distributed:\n        dist.init_process_group('gloo')\n        args.world_size = dist.get_world_size()\n"
    got = result(launched("print(loss.item() / args.world_size)", before=before).replace("    dist.init_process_group('gloo')\n", setup, 1))
    assert "print(loss.item() / accelerator.num_processes)" in got
    assert not {word for word in ("args.", "os", "dist.") if f"{word}" in got.replace("loss", "").replace("cross", "")}


def test_the_main_process_goes_first() -> None:
    code = "if dist.get_rank() != 0:\n    dist.barrier()\ndata = torch.load('x.pt')\nif dist.get_rank() == 0:\n    dist.barrier()\nprint(data)"
    assert "    with accelerator.main_process_first():\n        data = torch.load('x.pt')\n    print(data)" in result(launched(code))


def test_no_collective_where_the_main_process_goes_first() -> None:
    """A model made in a function that the main process runs first is prepared when all have made it."""
    made = "    def make():\n        net = nn.Linear(8, 2)\n        return net\n\n"
    turn = "    if dist.get_rank() != 0:\n        dist.barrier()\n    model = make()\n    if dist.get_rank() == 0:\n        dist.barrier()\n    model = DDP(model)\n"
    line = next(line for line in BODY.splitlines(keepends=True) if "DDP(" in line)
    got = result(launched(body=made + BODY.replace(line, turn)))
    assert "    with accelerator.main_process_first():\n        model = make()\n" in got
    assert got.count(".prepare(") == 1 and "        return net\n" in got and "prepare(net)" not in got


# -- starting processes ------------------------------------------------------------------------------------------
WORKER = BODY.replace("    dataset", "    dist.init_process_group('gloo', rank=rank, world_size=size)\n    dataset", 1)


def started(start: str, parameters: str = "rank, size, lr", worker: str = WORKER) -> str:
    return f"{START}\n\ndef worker({parameters}):\n{worker}    print(rank, size, lr)\n\n\nif __name__ == '__main__':\n    n = torch.cuda.device_count()\n{start}"


@pytest.mark.parametrize(
    "start",
    [
        "    mp.spawn(worker, args=(n, 0.1), nprocs=n, join=True)\n",
        "    mp.spawn(fn=worker, nprocs=n, args=(n, 0.1))\n",
        "    torch.multiprocessing.start_processes(worker, (n, 0.1), n)\n",
        "    mp.set_start_method('spawn')\n    ps = []\n    for r in range(n):\n        p = mp.Process(target=worker, args=(r, n, 0.1))\n        p.start()\n        ps.append(p)\n    for p in ps:\n        p.join()\n",
        "    if n > 1:\n        mp.spawn(worker, args=(n, 0.1), nprocs=n)\n    else:\n        worker(0, 1, 0.1)\n",
    ],
    ids=["spawn", "by name", "start_processes", "a loop over Process", "one device without processes"],
)
def test_the_worker_is_called(start: str) -> None:
    got = result(started(start))
    assert "def worker(lr):\n    accelerator = Accelerator()\n    rank = accelerator.process_index\n    size = accelerator.num_processes\n" in got
    assert got.endswith("if __name__ == '__main__':\n    worker(0.1)\n")


def test_a_rank_that_is_computed_is_the_launchers() -> None:
    worker = WORKER.replace("    dist.init", "    global best\n    rank = 8 * args.node + gpu\n    dist.init", 1)
    start = "    args = argparse.Namespace(node=0)\n    size = 2 * n\n    mp.spawn(worker, args=(n, args, size), nprocs=n)\n"
    got = result(started(start, "gpu, n, args, size", worker).replace("print(rank, size, lr)", "print(rank, gpu)"))
    assert "    global best\n    accelerator = Accelerator()\n" in got
    assert "print(accelerator.process_index, gpu)" in got
    assert not {word for word in ("dist.", "args.node", "world_size", "device_count") if word in got}


def test_arguments_out_of_sight_are_refused() -> None:
    found = migrated(started("    arguments = (n, 0.1)\n    mp.spawn(worker, args=arguments, nprocs=n)\n"))
    assert (found.status, "starts its own training processes" in found.reason) == ("refused", True)


def test_a_sampler_chosen_by_the_number_of_processes_is_told_nothing() -> None:
    chosen = "    kind = RandomSampler if args.local_rank == -1 else DistributedSampler\n    loader = DataLoader(dataset, batch_size=16, sampler=kind(dataset))\n"
    body = chosen.join(BODY.split("    loader = DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))\n")).replace("    model = DDP(model)", "    if args.local_rank != -1:\n        model = DDP(model)")
    parser = "from torch.utils.data import RandomSampler\nparser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int, default=-1)\nargs = parser.parse_args()\n"
    setup = "    if args.local_rank != -1:\n        dist.init_process_group('nccl')\n"
    got = result(f"{START}\n{parser}\n\ndef main():\n{setup}{body}\n\nmain()\n")
    assert "kind(dataset)" in got
    assert "num_replicas" not in got


# -- branches behind flags -----------------------------------------------------------------------------------------
PLAIN = BODY.replace("DataLoader(dataset, batch_size=16, sampler=DistributedSampler(dataset))", "DataLoader(dataset, batch_size=16, shuffle=sampler is None, sampler=sampler)")


def flagged(test: str, declared: str) -> str:
    body = PLAIN.replace("    loader", f"    sampler = DistributedSampler(dataset) if {test} else None\n    loader", 1)
    body = body.replace("    model = DDP(model)", f"    if {test}:\n        model = DDP(model)")
    setup = f"    if {test}:\n        dist.init_process_group('nccl')\n"
    return f"{START}\n{declared}\n\ndef main():\n{setup}{body}    print(f'{{loss}}')\n\n\nmain()\n"


@pytest.mark.parametrize(
    ("test", "declared"),
    [
        ("args.ddp", "parser = argparse.ArgumentParser()\nparser.add_argument('--ddp', action='store_true')\nargs = parser.parse_args()\n"),
        ("args.gpus > 1", "parser = argparse.ArgumentParser()\nparser.add_argument('--gpus', type=int, default=1)\nargs = parser.parse_args()\n"),
        ("USE_DDP", "USE_DDP = False\n"),
        ("torch.cuda.device_count() > 1", ""),
    ],
)
def test_a_branch_behind_a_flag_goes(test: str, declared: str) -> None:
    found = migrated(flagged(test, declared))
    got = after(found)
    assert "loader = DataLoader(dataset, batch_size=16, shuffle=True)" in got
    assert "Accelerator(split_batches=True)" in got
    assert not {word for word in ("dist.", "DDP", "Sampler", "ddp", "gpus") if word in got}
    assert [(f.rule, f.severity.value) for f in found.findings] == [("hand-made-ddp", "info")]


def test_a_flag_that_is_on_by_default_is_no_flag() -> None:
    got = result(flagged("USE_DDP", "USE_DDP = True\n"))
    assert "DistributedSampler(dataset" in got
    assert "split_batches" not in got


def test_code_below_a_branch_that_returns_goes() -> None:
    code = flagged("USE_DDP", "USE_DDP = False\n").replace("\n\ndef main", "\n\ndef mean(x):\n    if not USE_DDP:\n        return x\n    dist.all_reduce(x)\n    return x\n\n\ndef main", 1)
    assert "def mean(x):\n    return x\n\n\n" in result(code.replace("{loss}", "{mean(loss)}"))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(nn.Linear(2, 2))", "FSDP"),
        ("import horovod.torch as hvd\nhvd.init()", "Horovod"),
        ("import deepspeed\ndeepspeed.init_distributed()", "DeepSpeed"),
        ("from torch.distributed.device_mesh import init_device_mesh\nmesh = init_device_mesh('cuda', (2,))", "a device mesh"),
    ],
)
def test_other_ways_to_spread_training_are_refused(lines: str, what: str) -> None:
    found = migrated(launched(before=lines))
    assert (found.status, f"it trains with {what} itself" in found.reason) == ("refused", True)


# -- accelerators that do not accelerate ---------------------------------------------------------------------------
HALF = f"""{START}
from accelerate import Accelerator

accelerator = Accelerator()
device = accelerator.device
dataset = TensorDataset(torch.randn(96, 8), torch.randint(2, (96,)))
loader = DataLoader(dataset, batch_size=16, shuffle=True)
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
PREPARED = HALF.replace("for x", "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\nfor x")


def test_an_accelerator_that_prepares_nothing() -> None:
    got = result(HALF)
    assert "from accelerate import Accelerator\n" in got
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)\n" in got
    assert "accelerator.backward(loss)" in got
    assert not {word for word in ("device", "accel_runtime", "split_batches") if word in got}


def test_an_accelerator_without_its_backward() -> None:
    got = result(PREPARED)
    assert (got.count("prepare("), got.count("accelerator.backward(loss)")) == (1, 1)


def test_a_finished_script_is_left_alone() -> None:
    assert migrated(PREPARED.replace("loss.backward()", "accelerator.backward(loss)")).status == "unchanged"


def test_an_accelerator_of_another_name_is_reported() -> None:
    found = migrated(HALF.replace("accelerator", "acc"))
    assert (found.status, [f.rule for f in found.findings]) == ("unchanged", ["accelerator"])


# -- leftovers ---------------------------------------------------------------------------------------------------------
def test_what_nobody_read_before_stays() -> None:
    helpers = "UNUSED = 3\n\n\ndef forgotten():\n    return dist.is_available()\n"
    assert helpers in result(launched(before=helpers))


def test_constructors_and_recursive_functions_stay() -> None:
    helpers = "class Net(nn.Linear):\n    def __init__(self):\n        super().__init__(8, 2)\n\n\ndef depth(n):\n    return 0 if n < 1 else depth(n - 1)\n"
    assert helpers in result(launched(before=helpers, body=BODY.replace("nn.Linear(8, 2)", "Net()")))


def test_arguments_that_are_handed_on_as_a_mapping_stay() -> None:
    declared = "parser = argparse.ArgumentParser()\nparser.add_argument('--world-size', type=int)\nargs = parser.parse_args()\n"
    code = launched("print(dict(**vars(args)))", before=declared).replace("'gloo')", "'gloo', world_size=args.world_size, rank=int(os.environ['RANK']))")
    assert "'--world-size'" in result(code)
    assert "'--world-size'" not in result(code.replace("**vars(args)", "a=1"))


def test_lines_of_findings_and_edits_are_those_of_the_file_on_disk() -> None:
    found = migrated(flagged("USE_DDP", "USE_DDP = False\n"))
    text = found.project.entry.text.split("\n")
    backward = next(e for change in found.changes for e in change.edits if e.rule == "backward")
    assert "loss.backward()" in text[backward.node.lineno - 1]  # type: ignore[attr-defined]
    assert "init_process_group" in text[found.findings[0].node.lineno - 1]  # type: ignore[attr-defined]


def test_launch_scripts_get_a_new_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(launched())
    (tmp_path / "run.sh").write_text("# two nodes\ntorchrun --nnodes 2 --nproc_per_node=4 \\\n  train.py --lr 0.1 --local_rank 0\necho done\n")
    notes = migrate(load_project(tmp_path / "train.py"), Options()).notes
    assert notes == [f"{tmp_path}/run.sh:2 starts it with processes of its own; write: accel launch --num_machines 2 --num_processes 8 train.py --lr 0.1"] or notes == [
        f"{tmp_path}/run.sh:2 starts it with processes of its own; write: accel launch --num_processes 8 --num_machines 2 train.py --lr 0.1"
    ]


@pytest.mark.parametrize(("size", "found"), [("128 // args.n_gpu", True), ("128 * args.scale", False)])
def test_a_setting_that_said_how_many_processes_to_start_is_reported_where_it_is_read(size: str, found: bool) -> None:
    body = BODY.replace("batch_size=16", f"batch_size={size}").replace("model = DDP(model)", "model = DDP(model, device_ids=[rank])")
    parsed = "parser = argparse.ArgumentParser()\nparser.add_argument('--n_gpu', type=int)\nparser.add_argument('--scale', type=int)\n"
    worker = f"def worker(rank, world_size, args):\n    dist.init_process_group('nccl', rank=rank, world_size=world_size)\n{body}\n"
    start = "if __name__ == '__main__':\n    args = parser.parse_args()\n    world_size = 1 * args.n_gpu\n    mp.spawn(worker, nprocs=args.n_gpu, args=(world_size, args))\n"
    result = migrated(START + parsed + worker + start)
    said = [f.message for f in result.findings if "said how many processes" in f.message]
    assert [m.split("`")[1] for m in said] == (["args.n_gpu"] if found else [])


def test_a_try_that_tries_nothing_any_more_goes() -> None:
    tried = "try:\n        dist.init_process_group('nccl')\n    except Exception:\n        raise OSError('no group')\n"
    text = after(migrated(START + f"def main():\n    {tried}{BODY}\nmain()\n"))
    assert "try:" not in text and "no group" not in text


SAMPLER = """
class OwnSampler(torch.utils.data.Sampler):
    def __init__(self, data, num_replicas=None, rank=None):
        if num_replicas is None:
            num_replicas = dist.get_world_size()
        if rank is None:
            rank = dist.get_rank()
        self.data, self.num_replicas, self.rank = data, num_replicas, rank

    def __iter__(self):
        return iter(range(self.rank, len(self.data), self.num_replicas))

    def __len__(self):
        return len(self.data) // self.num_replicas

"""


def test_an_argument_that_was_not_given_says_nothing_of_processes() -> None:
    body = BODY.replace("DistributedSampler(dataset)", "OwnSampler(dataset)")
    text = after(migrated(f"{START}{SAMPLER}\ndef main():\n    dist.init_process_group('nccl')\n{body}\nmain()\n"))
    assert "if rank is None:\n            rank = " in text and "if num_replicas is None:\n            num_replicas = " in text
