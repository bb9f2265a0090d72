"""fp16 by a real scaler on the CPU: what is skipped, unscaled and kept, under each way of spreading a model."""

from __future__ import annotations

import functools
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from accel_runtime import AutocastKwargs, FullyShardedDataParallelPlugin, GradScalerKwargs, ParallelismConfig

from .training import accelerated, assert_close, assert_identical, data, mlp, plain, weights

ON_CPU = {"ACCELERATE_FP16_ON_CPU": "true"}
fp16 = functools.partial(accelerated, mixed_precision="fp16", env=ON_CPU)
HUGE = 3e38
SMALL = {"kwargs_handlers": [GradScalerKwargs(init_scale=64.0)]}


class Net(nn.Module):
    """[n, 6] -> [n, 8] and [n, 4]; `apart` stays whole where the others are sharded."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.apart = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.fc2(self.fc1(x).tanh())
        return hidden.float(), self.apart(hidden.detach()).float()


WAYS = {
    "copies": (2, {}),
    "sharded": (2, {"fsdp_plugin": FullyShardedDataParallelPlugin(auto_wrap_policy="no_wrap")}),
    "sharded, a part whole": (2, {"fsdp_plugin": FullyShardedDataParallelPlugin(auto_wrap_policy="no_wrap", ignored_modules="apart")}),
    "tensor parallel": (2, {"parallelism_config": ParallelismConfig(tp_size=2, tp_plan={"fc1": "colwise", "fc2": "rowwise"})}),
    "tensor parallel, sharded": (4, {"parallelism_config": ParallelismConfig(tp_size=2, dp_shard_size=2, tp_plan={"fc2": "colwise_rep"})}),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.slow] * (n > 2)) for way, (n, _) in WAYS.items()])
def test_an_overflow_in_one_place_skips_the_step_everywhere(way):
    """In one row of one weight, on the main process only, in the part that stays whole: each for itself."""
    places = [lambda h, a: h[:, 7], lambda h, a: h[:, 0], lambda h, a: a[:, 3]]

    def program(trainer):
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model, optimizer = trainer.prepare(model, optimizer)
        seen = []
        for place in (None, *places, "main"):
            optimizer.zero_grad()
            with trainer.autocast():
                hidden, apart = model(torch.ones(2, 6))
            loss = hidden.mean() + apart.mean()
            if place == "main":
                loss = loss + (places[1](hidden, apart) * (HUGE if trainer.is_main_process else 1.0)).mean()
            elif place is not None:
                loss = loss + (place(hidden, apart) * HUGE).mean()
            trainer.backward(loss)
            if place != "main":
                trainer.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            seen.append((trainer.optimizer_step_was_skipped, trainer.scaler.get_scale()))
        return {"seen": seen, "weights": weights(model)}

    n, settings = WAYS[way]
    results = fp16(program, n, **settings)
    expected = [(False, 65536.0)] + [(True, 65536.0 / 2**k) for k in (1, 2, 3, 4)]
    for result in results:
        assert result["seen"] == expected
        assert all(w.isfinite().all() for w in result["weights"].values())
        assert_identical(result["weights"], results[0]["weights"])


@pytest.mark.parametrize("n", [1, 2])
def test_two_optimizers_share_one_scale_for_each_backward(n):
    """Both are clipped before both step, and the first one overflows: the other is unscaled once, by the scale of its gradients."""

    def by_hand(_):
        first, second = mlp(), mlp()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (first, second)]
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1)
        scales = []
        for at, (x, y) in enumerate(DataLoader(data(16), 4)):
            with torch.autocast("cpu", dtype=torch.float16):
                losses = [F.mse_loss(m(x).float(), y) for m in (first, second)]
            scaler.scale(losses[0] * (HUGE if at == 2 else 1.0) + losses[1]).backward()
            for optimizer, model in zip(optimizers, (first, second), strict=True):
                if at % 2 == 0:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            for optimizer in optimizers:
                scaler.step(optimizer)
                optimizer.zero_grad()
            scaler.update()
            if at % 2:
                scales.append(scaler.get_scale())
        return {"weights": weights(first), "others": weights(second), "scales": scales}

    def with_runtime(trainer):
        first, second = mlp(), mlp()
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (first, second)]
        first, second, *optimizers, loader = trainer.prepare(first, second, *optimizers, DataLoader(data(16), 4))
        scales, skipped = [], []
        for at, (x, y) in enumerate(loader):
            with trainer.autocast():
                losses = [F.mse_loss(m(x).float(), y) for m in (first, second)]
            trainer.backward(losses[0] * (HUGE if at == 2 else 1.0) + losses[1])
            if at % 2 == 0:
                for model in (first, second):
                    trainer.clip_grad_norm_(model.parameters(), 0.5)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            skipped.append(trainer.optimizer_step_was_skipped)
            if at % 2:  # in the other steps nobody looks
                scales.append(trainer.scaler.get_scale())
        assert skipped == [False, False, True, False]
        return {"weights": weights(first), "others": weights(second), "scales": scales}

    expected = plain(by_hand)
    for got in fp16(with_runtime, n, kwargs_handlers=[GradScalerKwargs(init_scale=1024.0, growth_interval=1)]):
        assert got["scales"] == expected["scales"]
        assert_close([got["weights"], got["others"]], [expected["weights"], expected["others"]], 1e-6 if n == 1 else 1e-2)


def stepping(trainer, steps, overflow_at=(2,)):
    """Train; the learning rates after each step, and what was skipped."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    ticking = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: 1 / (1 + at))
    model, optimizer, ticking, loader = trainer.prepare(model, optimizer, ticking, DataLoader(data(8 * steps), 8))
    rates, skipped = [], []
    for at, (x, y) in enumerate(loader):
        with trainer.autocast():
            loss = F.mse_loss(model(x).float(), y)
        trainer.backward(loss * (HUGE if at in overflow_at else 1.0))
        optimizer.step()
        ticking.step()
        optimizer.zero_grad()
        rates.append(ticking.get_last_lr()[0])
        skipped.append(trainer.optimizer_step_was_skipped)
    return {"rates": rates, "skipped": skipped}


@pytest.mark.parametrize(("exact", "ticks"), [(True, [1, 2, 3, 4]), (False, [2, 4, 4, 6])])
def test_schedulers_and_skipped_steps(exact, ticks):
    """Exact mode does what the script says, as on one process; the other mode skips the tick too, as Accelerate does."""
    for got in fp16(functools.partial(stepping, steps=4 if exact else 8), 2, split_batches=exact, **SMALL):
        assert got["skipped"] == [False, False, True, False]
        assert got["rates"] == pytest.approx([0.1 / (1 + at) for at in ticks])


@pytest.mark.parametrize("fused", [False, True])
def test_clipping_sees_unscaled_gradients(fused):
    """Twice in one step, by norm and by value; inside a window the norm is a true one, too. Optimizers that unscale by themselves are no other."""

    def program(trainer):
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=fused)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(24), 4))
        norms, skipped = [], []
        for at, (x, y) in enumerate(loader):
            with trainer.accumulate(model):
                with trainer.autocast():
                    loss = F.mse_loss(model(x).float(), y)
                trainer.backward(loss * (HUGE if at == 4 and trainer.scaler else 1.0))
                trainer.clip_grad_value_(model.parameters(), 20.0)
                norms.append(trainer.clip_grad_norm_(model.parameters(), 1e6).item())
                if at % 2:
                    norms.append(max(p.grad.abs().max().item() for p in model.parameters()))
                optimizer.step()
                optimizer.zero_grad()
                skipped.append(trainer.optimizer_step_was_skipped)
        return {"norms": norms[:6], "skipped": skipped[1::2]}

    low = fp16(program, 2, gradient_accumulation_steps=2, **SMALL)
    for got, full in zip(low, accelerated(program, 2, gradient_accumulation_steps=2), strict=True):
        assert_close(got["norms"][:3], full["norms"][:3], 2e-2)
        assert got["skipped"] == [False, False, True] and full["skipped"] == [False] * 3


def test_an_overflow_inside_a_window_skips_the_window_only():
    def program(trainer):
        model = mlp()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(24), 4))
        seen = []
        for at, (x, y) in enumerate(loader):
            before = weights(model)
            with trainer.accumulate(model):
                with trainer.autocast():
                    loss = F.mse_loss(model(x).float(), y)
                trainer.backward(loss * (HUGE if at == 2 else 1.0))
                trainer.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            moved = any((before[name] != w).any().item() for name, w in weights(model).items())
            seen.append((moved, trainer.optimizer_step_was_skipped, trainer.scaler.get_scale()))
        return {"seen": seen}

    for got in fp16(program, 2, gradient_accumulation_steps=2, **SMALL):
        assert [(moved, skipped) for moved, skipped, _ in got["seen"]] == [
            (False, False), (True, False), (False, False), (False, True), (False, True), (True, False)
        ]  # fmt: skip
        assert [scale for *_, scale in got["seen"]] == [64.0, 64.0, 64.0, 32.0, 32.0, 32.0]


def test_the_scalers_settings():
    def program(trainer):
        scaler = trainer.scaler
        return {"state": [scaler.get_scale(), scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()], "on": scaler.is_enabled()}

    handler = GradScalerKwargs(init_scale=8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=7)
    got = fp16(program, 1, kwargs_handlers=[handler])[0]
    assert got["state"] == [8.0, 3.0, 0.25, 7] and got["on"]
    got = fp16(lambda trainer: {"on": trainer.scaler.is_enabled(), **stepping(trainer, overflow_at=(), steps=2)}, 1, kwargs_handlers=[GradScalerKwargs(enabled=False)])[0]
    assert not got["on"] and got["skipped"] == [False, False]


def test_autocasts_settings_and_islands():
    def program(trainer):
        model = mlp()
        model, x = trainer.prepare(model), torch.ones(4, 6)
        cached = []
        plain_cache = torch.is_autocast_cache_enabled
        with trainer.autocast():
            inside = model(x).dtype
            cached.append(plain_cache())
            with torch.autocast("cpu", enabled=False):
                island = model(x).dtype
            with trainer.autocast(AutocastKwargs(enabled=False)):
                own = model(x).dtype
            again = model(x).dtype
        return {"types": [str(t) for t in (inside, island, own, again, model(x).dtype)], "cache": cached[0]}

    low, full = "torch.float16", "torch.float32"
    got = fp16(program, 1)[0]
    assert got["types"] == [low, full, full, low, full] and got["cache"]
    got = fp16(program, 1, kwargs_handlers=[AutocastKwargs(cache_enabled=False)])[0]
    assert got["types"] == [low, full, full, low, full] and not got["cache"]
    assert fp16(program, 1, kwargs_handlers=[AutocastKwargs(enabled=False)])[0]["types"] == [full] * 5


def test_per_process_mode_casts_outputs_and_keeps_islands():
    class Islands(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            low = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                full = self.layer(x)
            return {"kinds": [str(low.dtype), str(full.dtype)], "low": low, "deep": [(full, low)], "whole": low.argmax(1)}

    def program(trainer):
        out = trainer.prepare(Islands())(torch.ones(2, 6))
        outputs = [out["low"], *out["deep"][0], out["whole"]]
        with trainer.autocast(AutocastKwargs(enabled=False)):  # Accelerate's region around the call does not reach inside
            again = trainer._models[0](torch.ones(2, 6))["kinds"]
        return {"kinds": out["kinds"], "outputs": [str(value.dtype) for value in outputs], "again": again}

    got = fp16(program, 1, split_batches=False)[0]
    assert got["kinds"] == got["again"] == ["torch.float16", "torch.float32"]
    assert got["outputs"] == ["torch.float32"] * 3 + ["torch.int64"]


def test_the_scaler_is_saved_and_resumed(tmp_path):
    """Its scale, and how far it is from growing: right after an overflow, in the middle of an epoch."""

    def program(trainer, stop=None, resume=False):
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        model, optimizer, loader = trainer.prepare(model, optimizer, DataLoader(data(32), 4))
        if resume:
            trainer.load_state(tmp_path / "state")
        seen = []
        for at, (x, y) in enumerate(loader, start=3 if resume else 0):
            with trainer.autocast():
                loss = F.mse_loss(model(x).float(), y)
            trainer.backward(loss * (HUGE if at == 1 else 1.0))
            optimizer.step()
            optimizer.zero_grad()
            if at == stop:
                trainer.save_state(tmp_path / "state")
                return {}
            seen.append((loss.item(), trainer.scaler.get_scale()))
        return {"seen": seen[-5:], "scaler": trainer.scaler.state_dict(), "weights": weights(model)}

    settings = {"kwargs_handlers": [GradScalerKwargs(init_scale=64.0, growth_interval=2)]}
    whole = fp16(program, 2, **settings)
    fp16(functools.partial(program, stop=2), 2, **settings)
    for got, expected in zip(fp16(functools.partial(program, resume=True), 2, **settings), whole, strict=True):
        got.pop("streams"), expected.pop("streams")
        assert_identical(got, expected)
    assert [scale for _, scale in whole[0]["seen"]] == [64.0, 64.0, 128.0, 128.0, 256.0]


def test_a_pickled_scaler_is_torchs():
    def program(trainer):
        stepping(trainer, overflow_at=(0,), steps=2)
        copied = pickle.loads(pickle.dumps(trainer.scaler))
        return {"kind": type(copied) is torch.amp.GradScaler, "same": copied.state_dict() == trainer.scaler.state_dict()}

    for got in fp16(program, 2, fsdp_plugin=FullyShardedDataParallelPlugin()):
        assert got["kind"] and got["same"]
