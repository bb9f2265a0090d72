"""The tracker classes: their base, TensorBoard, Weights & Biases, and plain files."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Values = dict[str, Any]


class GeneralTracker:
    """Base of all trackers; its methods do nothing.

    Attributes:
        name: by which `Accelerator.get_tracker` finds it.
        requires_logging_directory: whether the class is made as `cls(run_name, logging_dir, **init_kwargs)` instead of
            `cls(run_name, **init_kwargs)`.
        main_process_only: whether it exists on the main process only.
        tracker: the object of the tracking library.

    Raises:
        NotImplementedError: a subclass lacks one of these.
    """

    name: str
    requires_logging_directory: bool
    main_process_only = True

    def __init__(self, _blank: bool = False):
        needed = () if _blank else ("name", "requires_logging_directory", "tracker")
        if missing := [f"`{name}`" for name in needed if name not in dir(self)]:
            raise NotImplementedError(f"{type(self).__name__} lacks required attributes; define {', '.join(missing)} in the class")

    def start(self) -> None:
        """Open the run."""

    def store_init_configuration(self, values: Values) -> None:
        """Record the hyperparameters `values`."""

    def log(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record `values` of training step `step`."""

    def log_images(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record lists of images."""

    def finish(self) -> None:
        """Close the run."""


class TensorBoardTracker(GeneralTracker):
    """Writes event files to `logging_dir/run_name`; `kwargs` go to `SummaryWriter`."""

    name = "tensorboard"
    requires_logging_directory = True

    def __init__(self, run_name: str, logging_dir: str | os.PathLike[str], **kwargs: Any):
        super().__init__()
        self.run_name = run_name
        self.logging_dir = os.path.join(logging_dir, run_name)
        self.init_kwargs = kwargs
        self.writer: Any = None

    @property
    def tracker(self) -> Any:
        """The `SummaryWriter`."""
        return self.writer

    def start(self) -> None:
        """Open the `SummaryWriter`."""
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(self.logging_dir, **self.init_kwargs)  # type: ignore[no-untyped-call]

    def store_init_configuration(self, values: Values) -> None:
        """Record hyperparameters as such and as `hparams.yml`."""
        import yaml

        self.writer.add_hparams(values, metric_dict={})
        self.writer.flush()
        folder = Path(self.logging_dir, str(time.time()))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hparams.yml").write_text(yaml.safe_dump(values), encoding="utf-8")

    def log(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record numbers as scalars, texts as text, dictionaries of numbers as groups of scalars."""
        for name, value in plain(values).items():
            if isinstance(value, (int, float)):
                self.writer.add_scalar(name, value, global_step=step, **kwargs)
            elif isinstance(value, str):
                self.writer.add_text(name, value, global_step=step, **kwargs)
            elif isinstance(value, dict):
                self.writer.add_scalars(name, value, global_step=step, **kwargs)
        self.writer.flush()

    def log_images(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record batches of images."""
        for name, images in values.items():
            self.writer.add_images(name, images, global_step=step, **kwargs)

    def finish(self) -> None:
        """Close the `SummaryWriter`."""
        self.writer.close()


class WandBTracker(GeneralTracker):
    """Sends values to Weights & Biases, project `run_name`; `kwargs` go to `wandb.init`."""

    name = "wandb"
    requires_logging_directory = False

    def __init__(self, run_name: str, **kwargs: Any):
        super().__init__()
        self.run_name = run_name
        self.init_kwargs = kwargs
        self.run: Any = None

    @property
    def tracker(self) -> Any:
        """The run."""
        return self.run

    def start(self) -> None:
        """Open the run."""
        import wandb

        self.run = wandb.init(project=self.run_name, **self.init_kwargs)

    def store_init_configuration(self, values: Values) -> None:
        """Record hyperparameters in the run's configuration."""
        self.run.config.update(values, allow_val_change=True)

    def log(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record values."""
        self.run.log(values, step=step, **kwargs)

    def log_images(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Record lists of images."""
        import wandb

        self.run.log({name: [wandb.Image(image, **kwargs) for image in images] for name, images in values.items()}, step=step)

    def finish(self) -> None:
        """Close the run."""
        self.run.finish()


class FileTracker(GeneralTracker):
    """Base of trackers that write into `logging_dir/run_name`; hyperparameters go to `config.json`."""

    requires_logging_directory = True

    def __init__(self, run_name: str, logging_dir: str | os.PathLike[str]):
        super().__init__()
        self.folder = Path(logging_dir, run_name)

    @property
    def tracker(self) -> Path:
        """The folder."""
        return self.folder

    def start(self) -> None:
        """Make the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def store_init_configuration(self, values: Values) -> None:
        """Write `config.json`."""
        (self.folder / "config.json").write_text(json.dumps(plain(values), indent=2, default=str) + "\n", encoding="utf-8")


class JSONLinesTracker(FileTracker):
    """Appends one JSON object per call to `metrics.jsonl`."""

    name = "jsonl"

    def log(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Append a line."""
        line = json.dumps({"step": step, **plain(values)}, default=str)
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class CSVTracker(FileTracker):
    """Writes one row per call to `metrics.csv`; a new name becomes a new column, empty in earlier rows."""

    name = "csv"

    def __init__(self, run_name: str, logging_dir: str | os.PathLike[str]):
        super().__init__(run_name, logging_dir)
        self.columns: list[str] = ["step"]

    def start(self) -> None:
        """Make the folder; go on with a file that is there."""
        super().start()
        if self._file.exists():
            with self._file.open(newline="", encoding="utf-8") as file:
                self.columns = next(csv.reader(file), self.columns)

    def log(self, values: Values, step: int | None = None, **kwargs: Any) -> None:
        """Append a row."""
        row = {"step": step, **plain(values)}
        new = [name for name in row if name not in self.columns]
        if new or not self._file.exists():
            self.columns += new
            self._rewrite()
        with self._file.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self.columns).writerow(row)

    @property
    def _file(self) -> Path:
        return self.folder / "metrics.csv"

    def _rewrite(self) -> None:
        rows: Iterable[dict[str, Any]] = ()
        if self._file.exists():
            with self._file.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        partial = self._file.with_suffix(".partial")
        with partial.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns)
            writer.writeheader()
            writer.writerows(rows)
        os.replace(partial, self._file)


def plain(values: Mapping[str, Any]) -> Values:
    """`values` with tensors and arrays as numbers and lists."""
    return {name: _plain_value(value) for name, value in values.items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return plain(value)
    if hasattr(value, "tolist"):
        return value.detach().tolist() if hasattr(value, "detach") else value.tolist()
    return value
