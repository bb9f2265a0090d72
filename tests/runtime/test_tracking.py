"""Trackers: what ends up in their files, and which are refused."""

from __future__ import annotations

import csv
import json
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
import torch

from accel_runtime import tracking
from accel_runtime.tracking import GeneralTracker, filter_trackers, find_tracker, register_tracker_class, start_trackers


def started(log_with, folder=None, config=None, main=True, **init_kwargs):
    accelerator = SimpleNamespace(log_with=log_with, logging_dir=folder, is_main_process=main)
    accelerator.trackers = start_trackers(accelerator, "run", config, init_kwargs)
    return accelerator


class Memory(GeneralTracker):
    name = "memory"
    requires_logging_directory = False

    def __init__(self, run_name="", everywhere=False):
        super().__init__()
        self.main_process_only = not everywhere
        self.logged = []

    @property
    def tracker(self):
        return self.logged

    def log(self, values, step=None, **kwargs):
        self.logged.append((step, values))


def test_json_lines(tmp_path):
    (tracker,) = started("jsonl", str(tmp_path), {"lr": 0.1, "layers": [1, 2]}).trackers
    tracker.log({"loss": torch.tensor(0.5, requires_grad=True), "text": "x"}, step=1)
    tracker.log({"acc": 1}, step=2)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [{"step": 1, "loss": 0.5, "text": "x"}, {"step": 2, "acc": 1}]
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == {"lr": 0.1, "layers": [1, 2]}


def test_csv_gains_columns_and_goes_on(tmp_path):
    (tracker,) = started("csv", str(tmp_path)).trackers
    tracker.log({"loss": 0.5}, step=1)
    tracker.log({"acc": 1, "loss": 0.25}, step=2)
    (again,) = started("csv", str(tmp_path)).trackers
    again.log({"acc": 2}, step=3)
    with (tmp_path / "run" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"step": "1", "loss": "0.5", "acc": ""},
        {"step": "2", "loss": "0.25", "acc": "1"},
        {"step": "3", "loss": "", "acc": "2"},
    ]


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    (tracker,) = started("tensorboard", str(tmp_path), {"lr": 0.1}).trackers
    tracker.log({"loss": torch.tensor(1.5), "words": "w", "group": {"a": 1.0}}, step=3)
    tracker.finish()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(3, 1.5)]
    assert list(tmp_path.glob("run/*/hparams.yml"))


def test_wandb_is_told():
    wandb = mock.MagicMock()
    with mock.patch.dict(sys.modules, wandb=wandb):
        accelerator = started("wandb", config={"lr": 1}, wandb={"tags": ["t"]})
        accelerator.trackers[0].log({"loss": 1.0}, step=4)
    wandb.init.assert_called_once_with(project="run", tags=["t"])
    find_tracker(accelerator, "wandb", unwrap=True).log.assert_called_once_with({"loss": 1.0}, step=4)


def test_other_processes_have_trackers_for_all_processes_only(tmp_path):
    everywhere = Memory(everywhere=True)
    accelerator = started(["jsonl", everywhere], str(tmp_path), main=False)
    assert accelerator.trackers == [everywhere]
    nothing = started("jsonl", str(tmp_path), main=False)
    find_tracker(nothing, "jsonl").log({"loss": 1})
    assert not any(tmp_path.iterdir())


def test_registered_classes(monkeypatch):
    monkeypatch.setattr(tracking, "LOGGER_TYPE_TO_CLASS", dict(tracking.LOGGER_TYPE_TO_CLASS))
    register_tracker_class(Memory)
    accelerator = started(["memory", "memory"])
    assert len(accelerator.trackers) == 1 and find_tracker(accelerator, "memory", unwrap=True) == []
    with pytest.warns(UserWarning, match="'memory' is replaced"):
        register_tracker_class(Memory)
    with pytest.raises(ValueError, match="must be a subclass"):
        register_tracker_class(dict)
    with pytest.raises(ValueError, match="no tracker 'csv' was started"):
        find_tracker(accelerator, "csv")


def test_refusals():
    with pytest.raises(ValueError, match="unknown tracker 'tensorbord': choose among"):
        filter_trackers("tensorbord")
    with pytest.raises(ValueError, match="Logging with `csv` requires a `logging_dir`"):
        filter_trackers(["csv"])
    assert filter_trackers(None) == []

    class Nameless(GeneralTracker):
        requires_logging_directory = False

    with pytest.raises(NotImplementedError, match="define `name`, `tracker`"):
        Nameless()
