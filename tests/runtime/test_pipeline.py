"""Pipelines: losses and weights of one process, whatever is before, between and after the steps."""

from __future__ import annotations

import contextlib
import functools
import io
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
import torch.distributed.pipelining  # once here instead of in every child
from torch import nn
from torch.utils.data import DataLoader

from accel_runtime import GradScalerKwargs, ParallelismConfig
from accel_runtime.checkpoint.errors import CheckpointError
from accel_runtime.stages import cut_evenly, in_parts, largest_divisor, recent, slices

from .ranks import run_ranks
from .training import accelerated, assert_close, data, seed

PAGE = Path(__file__).parents[2] / "docs" / "strategies.md"
TWO = {"parallelism_config": ParallelismConfig(pp_size=2)}
TWICE = {"parallelism_config": ParallelismConfig(pp_size=2, dp_replicate_size=2)}


def layers():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Dropout(0.0), nn.Linear(16, 1))


def program(trainer, epochs=1, save=None, load=None, schedule="1F1B", clip=1.0, rows=35, overflow_at=None):
    """AdamW in two groups, with a scheduler; the last batch is uneven."""
    seed()
    stage = trainer.pipeline_stage(layers())
    groups = [{"params": [p for p in stage.parameters() if p.ndim == d], "weight_decay": w} for d, w in ((2, 0.1), (1, 0.0))]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    ticking = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    stage, optimizer, ticking, loader = trainer.prepare(stage, optimizer, ticking, DataLoader(data(rows), 8, shuffle=True))
    pipeline = trainer.prepare_pipeline(stage, nn.functional.mse_loss, 4, schedule)
    if load:
        trainer.load_state(load)
    losses, norms, skipped = [], [], []
    if trainer.is_main_process:  # in the first stage only
        next(stage.parameters()).register_hook(lambda gradient: gradient * (torch.inf if len(losses) == overflow_at else 1.0))
    for _ in range(epochs):
        for x, y in loader:
            with trainer.accumulate(stage):
                losses.append(pipeline.step(x, target=y).item())
                norms.append(trainer.clip_grad_norm_(stage.parameters(), clip).item() if trainer.sync_gradients else 0.0)
                optimizer.step()
                skipped.append(trainer.optimizer_step_was_skipped)
                ticking.step()
                optimizer.zero_grad()
    if save:
        trainer.save_state(save)
    stage.eval()
    rated = trainer.gather_for_metrics(next(iter(loader))[0])
    output = pipeline.eval(rated)
    return {
        "losses": losses,
        "norms": norms,
        "skipped": skipped,
        "output": output.float(),
        "weights": dict(trainer.get_state_dict(stage)),
        "optimizer": trainer.get_state_dict(optimizer),
    }


@pytest.mark.parametrize(
    ("n", "settings", "steps", "schedule"), [(2, TWO, 1, "1F1B"), (4, TWICE, 2, "GPipe")], ids=["2", "2 copies of 2, accumulating"]
)
def test_losses_weights_and_states_of_one_process(n, settings, steps, schedule):
    (one,) = accelerated(program, 1, gradient_accumulation_steps=steps)
    for got in accelerated(functools.partial(program, schedule=schedule), n, gradient_accumulation_steps=steps, **settings):
        got.pop("streams"), one.pop("streams", None)
        assert_close(got, one, 1e-5)


def test_fp16_with_its_scaler():
    settings = {"mixed_precision": "fp16", "env": {"ACCELERATE_FP16_ON_CPU": "true"}, "kwargs_handlers": [GradScalerKwargs(init_scale=64.0)]}
    train = functools.partial(program, overflow_at=1)
    (alone,) = accelerated(train, 1, **settings)
    for got in accelerated(train, 2, **settings, **TWO):
        assert got["skipped"] == alone["skipped"] == [False, True, False, False, False]
        assert_close(got["losses"], alone["losses"], 2e-2)
        assert_close([got["norms"][0], *got["norms"][2:]], [alone["norms"][0], *alone["norms"][2:]], 5e-2)
        assert all(weight.isfinite().all() for weight in got["weights"].values())


def test_saved_states_resume_on_two_processes_and_on_one(tmp_path):
    """The second epoch of a run that was never stopped."""
    (whole,) = accelerated(functools.partial(program, epochs=2), 1)
    accelerated(functools.partial(program, save=tmp_path / "state"), 2, **TWO)
    for n, settings in ((2, TWO), (1, {})):
        for got in accelerated(functools.partial(program, load=tmp_path / "state"), n, **settings):
            assert_close(got["losses"], whole["losses"][5:], 1e-5)
            assert_close(got["weights"], whole["weights"], 1e-5)
            assert_close(got["optimizer"]["state"], whole["optimizer"]["state"], 1e-4)


class Embedded(nn.Module):
    """Adds its ids' rows, and hands the ids on."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 6)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, given):
        x, ids = given if isinstance(given, tuple) else (0.0, given)
        torch.rand(())
        return self.norm(x + self.table(ids)), ids


def of_ids(trainer):
    """Stages that pass tuples and integers, keep statistics and draw numbers; nested targets."""
    seed()
    stage = trainer.pipeline_stage(nn.Sequential(Embedded(), Embedded()))
    stage = trainer.prepare(stage)
    pipeline = trainer.prepare_pipeline(stage, lambda output, target: (output[0] - target["y"]).square().mean() * target["by"][0], 1)
    ids, drawn = torch.arange(8), torch.get_rng_state()
    waste = [torch.full((n,), 2**40) for n in range(1, 99)]  # what uninitialised memory holds
    del waste
    loss = pipeline.step(ids, target={"y": torch.ones(8, 6), "by": (2.0, None)}).item()
    after = torch.get_rng_state()
    torch.set_rng_state(drawn)
    torch.rand(len(stage))  # one number for each layer's forward
    assert torch.equal(torch.get_rng_state(), after)
    stage.eval()
    return {"loss": loss, "state": dict(trainer.get_state_dict(stage)), "output": pipeline.eval(ids)}


def test_the_search_for_shapes_leaves_no_trace():
    (one,) = accelerated(of_ids, 1)
    for got in accelerated(of_ids, 2, **TWO):
        got.pop("streams"), one.pop("streams", None)
        assert_close(got, one, 1e-5)


def half_a_window(trainer, folder, resumed):
    """Layers alike, of which a wrong one's gradient would fit."""
    seed()
    stage = trainer.pipeline_stage(nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)]))
    stage, optimizer = trainer.prepare(stage, torch.optim.SGD(stage.parameters(), lr=0.1))
    pipeline = trainer.prepare_pipeline(stage, nn.functional.mse_loss)
    if resumed:
        trainer.load_state(folder)
    for number in range(1 if resumed else 0, 2):
        x = torch.full((8, 4), number + 1.0) * torch.linspace(-1, 1, 4)
        with trainer.accumulate(stage):
            pipeline.step(x, target=x.flip(1))
            if number == 0:
                trainer.save_state(folder)
            optimizer.step()
            optimizer.zero_grad()
    return {"weights": dict(trainer.get_state_dict(stage))}


def test_a_window_goes_on_with_another_number_of_stages(tmp_path):
    run = functools.partial(accelerated, gradient_accumulation_steps=2)
    (one,) = run(functools.partial(half_a_window, folder=tmp_path / "1", resumed=False), 1)
    run(functools.partial(half_a_window, folder=tmp_path / "2", resumed=False), 2, **TWO)
    for folder, n, settings in (("2", 1, {}), ("1", 2, TWO), ("2", 2, {})):
        for got in run(functools.partial(half_a_window, folder=tmp_path / folder, resumed=True), n, **settings):
            assert_close(got["weights"], one["weights"], 1e-5)


class Average:
    """Of the weights of a stage, or anything else."""

    def __init__(self, value):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


def registered(trainer, folder, whole=False, load=False):
    own = Average(3.0 if whole else torch.full((2,), float(trainer.process_index)))
    trainer.register_for_checkpointing(own)
    if not load:
        trainer.save_state(folder)
        own.value = None
    try:
        trainer.load_state(folder)
    except CheckpointError as error:
        return {"error": str(error), "value": own.value}
    return {"value": own.value}


def test_registered_objects_are_each_stages_own(tmp_path):
    parts = accelerated(functools.partial(registered, folder=tmp_path / "parts"), 2, **TWO)
    assert [got["value"].tolist() for got in parts] == [[0.0, 0.0], [1.0, 1.0]]
    (one,) = accelerated(functools.partial(registered, folder=tmp_path / "parts", load=True), 1)
    assert "holds registered object 0 (Average) as it was with pp_size=2" in one["error"] and one["value"].tolist() == [0.0, 0.0]
    accelerated(functools.partial(registered, folder=tmp_path / "whole", whole=True), 2, **TWO)
    assert accelerated(functools.partial(registered, folder=tmp_path / "whole", load=True), 1)[0]["value"] == 3.0
    accelerated(functools.partial(registered, folder=tmp_path / "one"), 1)
    assert all("error" in got for got in accelerated(functools.partial(registered, folder=tmp_path / "one", load=True), 2, **TWO))


def test_the_last_few_are_kept():
    cache = OrderedDict()
    for key in (1, 2, 1, 3, 1):
        assert recent(cache, key, lambda: 2 * key, 2) == 2 * key  # noqa: B023
    assert list(cache) == [3, 1]


def test_the_lines_of_the_documentation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = PAGE.read_text().partition("## Pipelines")[2].partition("```python\n")[2].partition("```")[0]
    code = compile(lines, "docs/strategies.md", "exec")

    def page():
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, {"make_layers": layers, "dataset": data(35)})
        return [float(line) for line in printed.getvalue().split()], torch.load("model.pt")

    (losses, weights), *_ = run_ranks(page, 1)
    variables = {"ACCELERATE_USE_PARALLELISM_CONFIG": "true", "PARALLELISM_CONFIG_PP_SIZE": "2"}
    (first, saved), (second, _) = run_ranks(page, 2, env=variables)
    assert_close(first, losses, 1e-5)
    assert second == []
    assert_close(dict(saved), dict(weights), 1e-5)


def test_stages():
    model = layers()
    assert cut_evenly(model, 2) == [2] and cut_evenly(model, 3) == [2, 5]
    first, second = slices(model, [2], 2)
    assert [*first.state_dict(), *second.state_dict()] == list(model.state_dict())
    assert [largest_divisor(rows, 4) for rows in (8, 6, 3, 5, 0)] == [4, 3, 3, 1, 1]
    with pytest.raises(ValueError, match="pp_size is 4 and 3 layers of the model have parameters"):
        cut_evenly(model, 4)
    with pytest.raises(ValueError, match=r"cuts is \[0\]: for pp_size 2 it takes 1 rising numbers from 1 to 5"):
        slices(model, [0], 2)
    assert [part["y"].tolist() for part in in_parts({"y": torch.arange(4)}, 4, 2)] == [[0, 1], [2, 3]]
    assert in_parts(None, 4, 2) == [None, None] and [len(part) for part in in_parts(torch.zeros(12), 4, 2)] == [6, 6]
    shared = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"0\.weight is a weight of stages 0 and 1"):
        slices(nn.Sequential(shared, nn.Tanh(), nn.Sequential(shared)), [1], 2)


def test_what_is_refused():
    def body(trainer):
        with pytest.raises(RuntimeError, match="the loss belongs to the schedule"):
            trainer.backward(torch.zeros((), requires_grad=True))
        with pytest.raises(ValueError, match="schedule is 'zigzag': it must be '1F1B' or 'GPipe'"):
            trainer.prepare_pipeline(layers(), None, schedule="zigzag")
        with pytest.raises(ValueError, match="the whole model was prepared on each"):
            trainer.prepare(layers())
        with pytest.raises(ValueError, match=r"two stages of the pipeline have a weight named '0\.bias'"):
            trainer.prepare(nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + trainer.process_index)]))
        with pytest.raises(ValueError, match="LBFGS looks at all weights as one vector"):
            trainer.prepare(torch.optim.LBFGS(layers().parameters()))
        return {}

    accelerated(body, 2, **TWO)
    with pytest.raises(ValueError, match="pp_size is 2 and tp_size 2: pipelines go with dp_replicate_size only"):
        ParallelismConfig(pp_size=2, tp_size=2).check(4)
