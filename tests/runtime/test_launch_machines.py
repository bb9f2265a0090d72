"""Several machines: which interface, which settings; and two network namespaces as machines."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_runtime import launch, launch_network, launch_plan
from accel_runtime.launch_arguments import parse

MACHINES = ["--cpu", "--num_machines", "2", "--main_process_ip", "10.0.0.1", "--num_processes", "2"]


@pytest.fixture
def network(monkeypatch):
    """A machine whose name is the loopback and whose eth1 leads to the others."""
    monkeypatch.setattr(launch_network, "_addresses", lambda name: ["127.0.1.1"])
    monkeypatch.setattr(launch_network, "_source", lambda host: "10.0.0.2")
    monkeypatch.setattr(launch_network, "_address", lambda name: {"lo": "127.0.0.1", "eth1": "10.0.0.2"}.get(name))
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0"), (3, "eth1")])
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    return monkeypatch


def environment(*arguments: str) -> dict[str, str]:
    return launch_plan.make(parse([*arguments, __file__])).environment


def test_gloo_is_told_the_interface_towards_machine_0(network):
    assert environment(*MACHINES)["GLOO_SOCKET_IFNAME"] == "eth1"
    assert launch_network.address_towards("10.0.0.1") == "10.0.0.2"


def test_gloo_needs_no_advice_where_the_name_is_an_address_or_it_was_told(network):
    assert "GLOO_SOCKET_IFNAME" not in environment("--cpu", "--num_processes", "2")
    network.setenv("GLOO_SOCKET_IFNAME", "eth0")
    assert "GLOO_SOCKET_IFNAME" not in environment(*MACHINES)
    network.delenv("GLOO_SOCKET_IFNAME")
    network.setattr(launch_network, "_addresses", lambda name: ["127.0.1.1", "10.0.0.2"])
    assert "GLOO_SOCKET_IFNAME" not in environment(*MACHINES)


def test_launchers_of_one_machine_that_play_several_need_no_advice(network):
    network.setattr(launch_network, "_source", lambda host: "127.0.0.1")
    assert "GLOO_SOCKET_IFNAME" not in environment(*MACHINES)


def test_machines_that_may_come_back_get_the_address_anew(network):
    assert environment(*MACHINES, "--rdzv_backend", "c10d")["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in environment(*MACHINES)


def test_an_interface_without_an_address_has_none():
    assert launch_network._address("no-such-if") is None


SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel_runtime import Accelerator, DataLoaderConfiguration, set_seed
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
set_seed(0)
x = torch.randn(27, 8)
model, data = nn.Linear(8, 1), TensorDataset(x, x.sum(1, keepdim=True))
model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(data, batch_size=8, shuffle=True))
for a, b in loader:
    loss = nn.functional.mse_loss(model(a), b)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print(f"{accelerator.global_mean(loss).item():.5f}")
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def two_machines() -> Iterator[list[str]]:
    """Two network namespaces, joined by a cable: 10.77.0.1 and 10.77.0.2."""
    names = [f"accel{os.getpid()}{side}" for side in "ab"]
    if shutil.which("ip") is None:
        pytest.skip("needs iproute2")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "cable", "netns", names[0], "type", "veth", "peer", "name", "cable", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "cable")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", "cable", "up")
        yield names
    except (subprocess.CalledProcessError, OSError):
        pytest.skip("network namespaces are not allowed here")
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


@pytest.mark.torchrun
@pytest.mark.slow
def test_two_machines_train_as_one_process_does(tmp_path, two_machines):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    variables = {**os.environ, "PYTHONPATH": str(Path(launch.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    alone = subprocess.run([sys.executable, str(path)], env=variables, capture_output=True, text=True, timeout=120)
    command = [
        sys.executable,
        "-m",
        "accel_runtime.launch",
        "--cpu",
        "--num_machines",
        "2",
        "--main_process_ip",
        "10.77.0.1",
    ]
    processes = []
    for rank, name in enumerate(two_machines):
        line = ["ip", "netns", "exec", name, *command, "--num_processes", "4", "--machine_rank", str(rank), str(path)]
        processes.append(
            subprocess.Popen(line, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
    try:
        for process in processes:
            out, error = process.communicate(timeout=180)
            assert (process.returncode, out) == (0, alone.stdout), error
    finally:
        for process in processes:
            process.terminate()
