"""Starting processes from inside a program."""

from __future__ import annotations

import os

import pytest
import torch

from accel_runtime import PartialState, debug_launcher, notebook_launcher
from accel_runtime.state import forget
from accel_runtime.utils import gather


@pytest.fixture(autouse=True)
def fresh():
    forget()
    yield
    forget()


def write_rank(folder):
    state = PartialState()
    total = gather(torch.tensor([state.process_index])).tolist()
    (folder / str(state.process_index)).write_text(f"{total} {os.environ.get('ACCELERATE_MIXED_PRECISION')}")


def test_debug_launcher_forgets_the_parents_state(tmp_path):
    assert PartialState(cpu=True).num_processes == 1
    debug_launcher(write_rank, (tmp_path,), num_processes=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1", "2"]
    assert (tmp_path / "2").read_text().startswith("[0, 1, 2]")


def test_a_failure_comes_back_with_its_traceback():
    def fail():
        if PartialState().is_main_process:
            raise KeyError("lost")
        PartialState().wait_for_everyone()

    with pytest.raises(Exception, match=r"KeyError: 'lost'|Connection closed by peer"):
        debug_launcher(fail)


class Net(torch.nn.Module):
    """A model defined in the notebook."""

    def __init__(self):
        super().__init__()
        self.rank = torch.nn.Parameter(torch.tensor(-1.0))


def returns(kind):
    state = PartialState()
    net = Net()
    with torch.no_grad():
        net.rank.fill_(state.process_index + state.num_processes)
    return {"model": net, "nothing": None, "a lambda": lambda: net, "history": [0.5, 0.25]}[kind]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_result_of_the_first_process_comes_back(processes, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert notebook_launcher(returns, ("history",), num_processes=processes) == [0.5, 0.25]
    forget()
    assert notebook_launcher(returns, ("nothing",), num_processes=processes) is None
    forget()
    net = notebook_launcher(returns, ("model",), num_processes=processes)
    assert isinstance(net, Net) and net.rank.item() == processes


def test_what_cannot_be_pickled_stays_where_it_is():
    assert debug_launcher(returns, ("a lambda",)) is None


def test_notebook_launcher(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    notebook_launcher(write_rank, (tmp_path,), num_processes=2, mixed_precision="bf16")
    assert (tmp_path / "1").read_text() == "[0, 1] bf16"
    notebook_launcher(write_rank, (tmp_path,), num_processes=1, mixed_precision="bf16")
    assert (tmp_path / "0").read_text() == "[0] bf16" and "ACCELERATE_MIXED_PRECISION" not in os.environ
    with pytest.raises(RuntimeError, match="must come before anything that makes an Accelerator"):
        notebook_launcher(write_rank, (tmp_path,), num_processes=2)


def fails_once(folder):
    state = PartialState()
    attempt = len(list(folder.glob(f"{state.process_index}-*")))
    (folder / f"{state.process_index}-{attempt}").touch()
    if attempt == 0 and state.process_index == 1:
        raise KeyError("lost")
    state.wait_for_everyone()
    return attempt


def test_a_failure_may_be_tried_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    assert notebook_launcher(fails_once, (tmp_path,), num_processes=2, max_restarts=1) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"num_nodes": 2, "rdzv_backend": "c10d"}, "meet by 'static' alone"),
        ({"num_nodes": 2, "max_restarts": 1}, "on one machine alone"),
        ({"rdzv_conf": {"timeout": 3}}, "rdzv_conf has timeout"),
        ({"log_line_prefix_template": "x"}, "must be None"),
    ],
)
def test_what_a_notebook_has_not_is_said(asked, message):
    with pytest.raises(ValueError, match=message):
        notebook_launcher(print, num_processes=2, **asked)
