"""fp16 with a scaler, bf16, what autocast covers, and what is pickled."""

from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import Accelerator, GradScalerKwargs, precision

from .ranks import RanksFailed, run_ranks
from .training import accelerated, assert_close, assert_identical, data, mlp, plain, weights


@pytest.fixture
def fp16_on_cpu(monkeypatch):
    """Lets the CPU stand in for a device that trains in fp16."""
    monkeypatch.setattr(precision, "WITHOUT_FP16", frozenset())


def by_hand(dtype: torch.dtype, init_scale: float = 1024.0):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cpu", enabled=dtype is torch.float16, init_scale=init_scale)
    losses, norms = [], []
    for x, y in DataLoader(data(13), 4, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.5).item())
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return {"losses": losses, "norms": norms, "weights": weights(model), "scale": scaler.get_scale()}


def program(trainer):
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(13), 4, shuffle=True))
    losses, norms, skipped = [], [], []
    for x, y in loader:
        optimizer.zero_grad()
        with trainer.autocast():
            loss = F.mse_loss(model(x), y)
        trainer.backward(loss)
        norms.append(trainer.clip_grad_norm_(model.parameters(), 0.5).item())
        optimizer.step()
        skipped.append(trainer.optimizer_step_was_skipped)
        losses.append(trainer.global_mean(loss).item())
    scale = 1.0 if trainer.scaler is None else trainer.scaler.get_scale()
    return {"losses": losses, "norms": norms, "weights": weights(model), "scale": scale, "skipped": skipped}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("mode", ["fp16", "bf16"])
def test_same_training_as_native_amp(mode, n, fp16_on_cpu):
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[mode]
    expected = plain(lambda _: by_hand(dtype))
    for got in accelerated(program, n, mixed_precision=mode, kwargs_handlers=[GradScalerKwargs(init_scale=1024.0)]):
        if n == 1:
            got.pop("skipped")
            assert_identical(got, expected)
        else:
            assert_close(got["losses"], expected["losses"], 1e-2)
            assert_close(got["weights"], expected["weights"], 1e-2)


@pytest.mark.parametrize("n", [1, 2])
def test_overflowing_steps_are_skipped_on_all_processes(n, fp16_on_cpu):
    expected = plain(lambda _: by_hand(torch.float16, 2.0**40))
    handlers = [GradScalerKwargs(init_scale=2.0**40)]
    for got in accelerated(program, n, mixed_precision="fp16", kwargs_handlers=handlers):
        assert all(got["skipped"][:3]) and got["scale"] == expected["scale"]
        assert_close(got["weights"], expected["weights"], 1e-2)


@pytest.mark.parametrize("n", [1, 2])
def test_accumulation_with_the_scaler(n, fp16_on_cpu):
    def by_hand(_):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for at, (x, y) in enumerate(DataLoader(data(16), 4)):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = F.mse_loss(model(x), y) / 2
            scaler.scale(loss).backward()
            if at % 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
        return {"weights": weights(model)}

    def with_runtime(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(16), 4))
        for x, y in loader:
            with trainer.accumulate(model):
                with trainer.autocast():
                    loss = F.mse_loss(model(x), y)
                trainer.backward(loss)
                trainer.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
        return {"weights": weights(model)}

    expected = plain(by_hand)
    for got in accelerated(with_runtime, n, mixed_precision="fp16", gradient_accumulation_steps=2, kwargs_handlers=[GradScalerKwargs(init_scale=1024.0)]):
        assert_close(got["weights"], expected["weights"], 1e-6 if n == 1 else 1e-2)


def test_exact_mode_covers_what_autocast_encloses_and_says_so_once():
    def outside(trainer):
        model, loader = trainer.prepare(mlp(), DataLoader(data(8), 4))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for x, y in loader:
                out = model(x)
                assert out.dtype is torch.float32
                trainer.backward(F.mse_loss(out, y))
        return {"said": [str(w.message) for w in caught if "autocast" in str(w.message)]}

    said = accelerated(outside, 1, mixed_precision="bf16")[0]["said"]
    assert len(said) == 1 and "bf16" in said[0]


def test_per_process_mode_runs_the_forward_in_autocast_and_returns_float32():
    def inside(trainer):
        seen = []
        model = mlp()
        hook = model[2].register_forward_pre_hook(lambda module, args: seen.append(str(args[0].dtype)))
        model = trainer.prepare(model)
        out = model(data(4).tensors[0])
        hook.remove()
        copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(nn.Sequential(model)))[0]]
        assert b"AutocastForward" not in pickle.dumps(model)
        with torch.no_grad():
            assert all(torch.equal(c(data(4).tensors[0]), copies[0](data(4).tensors[0])) for c in copies)
        return {"seen": seen[0], "out": str(out.dtype), "copy": str(copies[0](data(4).tensors[0]).dtype), "keys": list(model.state_dict())}

    got = accelerated(inside, 1, mixed_precision="bf16", split_batches=False)[0]
    assert (got["seen"], got["out"], got["copy"]) == ("torch.bfloat16", "torch.float32", "torch.float32")
    assert got["keys"] == list(mlp().state_dict())


def test_an_unknown_mode_is_refused():
    with pytest.raises(RanksFailed, match="mixed_precision is 'fp4'"):
        accelerated(lambda trainer: {}, 1, mixed_precision="fp4")


def test_a_closure_under_the_scaler_is_refused(fp16_on_cpu):
    def closure(trainer):
        optimizer = trainer.prepare(torch.optim.SGD(mlp().parameters(), lr=0.1))
        optimizer.step(lambda: torch.zeros(()))
        return {}

    with pytest.raises(RanksFailed, match="cannot step with a closure"):
        accelerated(closure, 1, mixed_precision="fp16")




@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("n", [1, 2])
def test_fp16_without_a_gpu_is_full_precision_as_with_torch_cuda_amp(n, exact):
    def amp(_):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scaler = torch.amp.GradScaler("cuda")
        losses = []
        for x, y in DataLoader(data(13), 4, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cuda", enabled=torch.cuda.is_available()):
                loss = F.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return {"losses": losses, "weights": weights(model), "scale": scaler.get_scale(), "state": scaler.state_dict()}

    def with_runtime(trainer):
        got = program(trainer)
        trainer.scaler.load_state_dict({})
        return {key: got[key] for key in ("losses", "weights", "scale")} | {"state": trainer.scaler.state_dict()}

    expected = plain(amp)
    for got in accelerated(with_runtime, n, mixed_precision="fp16", split_batches=exact):
        if n == 1:
            assert_identical(got, expected)
        elif exact:
            assert_close({k: v for k, v in got.items() if k != "streams"}, {k: v for k, v in expected.items() if k != "streams"})


def test_fp16_without_a_gpu_warns_once():
    def body():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            accelerator = Accelerator(mixed_precision="fp16")
            with accelerator.autocast():
                y = mlp()(torch.ones(2, 6))
            accelerator.backward(y.sum())
        return [str(w.message) for w in caught]

    first, second = run_ranks(body, 2)
    assert first == ["mixed_precision='fp16' needs a GPU: on the CPU the training is in full precision."] and second == []
