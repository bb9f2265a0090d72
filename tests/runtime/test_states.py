"""World, PartialState and kin, process control, logging."""

from __future__ import annotations

import logging

import pytest
import torch

from accel_runtime import world as worlds
from accel_runtime.kwargs import (
    DataLoaderConfiguration,
    GradScalerKwargs,
    default_accumulation_steps,
    default_precision,
)
from accel_runtime.logging import get_logger
from accel_runtime.process import split_inputs
from accel_runtime.state import AcceleratorState, DistributedType, GradientState, PartialState
from accel_runtime.world import World

from .ranks import RanksFailed, run_ranks


@pytest.fixture(autouse=True)
def fresh():
    yield
    AcceleratorState._reset_state(True)
    GradientState._reset_state()


def test_one_process_has_no_process_group(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    world = World.from_environment()
    assert world == World() and World.from_environment() is world
    assert not torch.distributed.is_initialized()


def test_two_launched_cpu_processes_are_two():
    def body():
        state = PartialState()
        return state.num_processes, state.process_index, state.backend, state.distributed_type, state.is_last_process

    multi = DistributedType.MULTI_CPU
    assert run_ranks(body, 2) == [(2, 0, "gloo", multi, False), (2, 1, "gloo", multi, True)]


def test_contradictions_in_the_environment_are_errors(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "5")
    with pytest.raises(ValueError, match="RANK is 5 and WORLD_SIZE is 2"):
        World.from_environment(cpu=True)
    monkeypatch.setenv("RANK", "zero")
    with pytest.raises(ValueError, match="RANK is 'zero': it must be an integer"):
        World.from_environment(cpu=True)


def test_mpi_variables_are_understood():
    def body():
        return World.from_environment().rank

    mpi = {"RANK": "", "WORLD_SIZE": "", "PMI_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    assert run_ranks(body, 1, env=mpi | {"PMI_SIZE": "1"}) == [0]


def test_an_open_process_group_is_used():
    def body():
        torch.distributed.init_process_group("gloo")
        return World.from_environment().size

    assert run_ranks(body, 2) == [2, 2]


def test_failures_carry_rank_and_traceback():
    def body():
        if World.from_environment().rank == 1:
            raise KeyError("lost")

    with pytest.raises(RanksFailed, match=r"--- rank 1 ---\nTraceback(.|\n)*KeyError: 'lost'") as caught:
        run_ranks(body, 2)
    assert list(caught.value.errors) == [1]


def test_reset_states_explain_themselves():
    state = PartialState(cpu=True)
    assert PartialState().world is state.world
    PartialState._reset_state()
    with pytest.raises(AttributeError, match=r"This happens if `PartialState._reset_state\(\)` was called"):
        _ = state.num_processes
    with pytest.raises(AttributeError, match="'PartialState' object has no attribute 'other'"):
        _ = state.other


def test_accelerator_state_keeps_its_precision():
    assert AcceleratorState("bf16", cpu=True).mixed_precision == "bf16"
    assert AcceleratorState().mixed_precision == "bf16"
    with pytest.raises(ValueError, match="was set up with 'bf16'"):
        AcceleratorState("no")


def test_environment_defaults(monkeypatch):
    assert (default_precision(), default_accumulation_steps()) == ("no", 1)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp17")
    with pytest.raises(ValueError, match=r"ACCELERATE_MIXED_PRECISION is 'fp17': it must be one of 'no', 'fp16', 'bf16', 'fp8'"):
        default_precision()
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    assert default_accumulation_steps() == 4


def test_settings():
    assert GradScalerKwargs(growth_interval=5).to_kwargs() == {"growth_interval": 5}
    with pytest.raises(ValueError, match="collate is 'x'"):
        DataLoaderConfiguration(collate="x")


def test_gradient_state_follows_nested_loaders():
    class Loader:
        end_of_dataloader, remainder = True, 3

    state, outer, inner = GradientState(), Loader(), Loader()
    assert (state.in_dataloader, state.end_of_dataloader, state.remainder) == (False, False, -1)
    state._add_dataloader(outer)
    state._add_dataloader(inner)
    assert state.active_dataloader is inner and GradientState().remainder == 3
    del inner
    assert state.active_dataloader is outer
    state._remove_dataloader(outer)
    assert state.dataloader_references == [None]


@pytest.mark.parametrize("n", [2, 3])
def test_main_process_goes_first(n, tmp_path):
    def body():
        state, file = PartialState(), tmp_path / "made"
        with state.main_process_first():
            if state.is_main_process:
                file.write_text("x")
            seen = file.exists()
        calls = [state.on_main_process(lambda: 1)(), state.on_last_process(lambda: 2)(), state.on_process(process_index=1)(lambda: 3)()]
        return seen, calls

    for rank, (seen, calls) in enumerate(run_ranks(body, n)):
        assert seen and calls == [1 if rank == 0 else None, 2 if rank == n - 1 else None, 3 if rank == 1 else None]


@pytest.mark.parametrize(
    ("inputs", "padded", "parts"),
    [
        (list("abcde"), False, [["a", "b"], ["c", "d"], ["e"]]),
        (list("abcde"), True, [["a", "b"], ["c", "d"], ["e", "e"]]),
        (("a",), False, [("a",), (), ()]),
        (("a",), True, [("a",), ("a",), ("a",)]),
        ({"x": [1, 2, 3, 4], "y": "abcd"}, False, [{"x": [1, 2], "y": "ab"}, {"x": [3], "y": "c"}, {"x": [4], "y": "d"}]),
    ],
)
def test_inputs_are_split_contiguously(inputs, padded, parts):
    assert [split_inputs(World(rank=r, size=3), inputs, padded) for r in range(3)] == parts


def test_tensors_are_split_and_padded():
    assert split_inputs(World(rank=1, size=2), torch.arange(3), apply_padding=True).tolist() == [2, 2]
    with pytest.raises(ValueError, match="values of one length"):
        split_inputs(World(rank=1, size=2), {"x": [1], "y": []})


def test_logger_speaks_once_or_in_order(tmp_path):
    def body():
        logger = get_logger("test.ranks", "INFO")
        handler = logging.FileHandler(tmp_path / "log")
        handler.setFormatter(logging.Formatter("%(filename)s %(message)s"))
        logger.logger.addHandler(handler)
        logger.info("early")
        PartialState()
        logger.info("once")
        logger.info("turn", in_order=True)
        logger.debug("silent")
        logger.warning_once("first")
        logger.warning_once("first")

    run_ranks(body, 2)
    lines = sorted((tmp_path / "log").read_text().splitlines())
    assert lines == sorted(f"test_states.py {text}" for text in ["early", "once", "[RANK 0] turn", "[RANK 1] turn", "first"])


def test_the_rank_is_known_before_the_world(monkeypatch):
    monkeypatch.setenv("RANK", "3")
    assert worlds.current() is None and worlds.rank() == 3
