"""Libraries that keep a record of a training elsewhere: what makes their objects, and which of them can be switched off."""

from __future__ import annotations

PACKAGES = (
    "wandb.", "mlflow.", "neptune.", "comet_ml.", "swanlab.", "clearml.", "trains.", "aim.", "trackio.", "dvclive.", "tensorboard_logger.",
)  # fmt: skip
MAKERS = {
    "tensorboard_logger.Logger", "visdom.Visdom", "tensorflow.summary.create_file_writer", "tensorflow.summary.FileWriter",
    "comet_ml.Experiment", "comet_ml.OfflineExperiment", "comet_ml.ExistingExperiment", "comet_ml.start",
    "neptune.init_run", "neptune.init", "neptune.new.init", "neptune.new.init_run", "neptune.Run",
    "clearml.Task.init", "clearml.Task.current_task", "clearml.Logger.current_logger", "trains.Task.init", "trains.Logger.current_logger",
    "aim.Run", "aim.Session", "dvclive.Live", "mlflow.start_run", "mlflow.MlflowClient", "mlflow.tracking.MlflowClient",
    "wandb.init", "swanlab.init", "trackio.init",
}  # fmt: skip
"""What is called to have an object that writes."""
SETTINGS = {"wandb.init": "wandb.config", "swanlab.init": "swanlab.config"}
"""What starts a record and keeps the settings of the training with it, by which the script may read them: `mode="disabled"` keeps only those."""
HANDED_BACK = {"connect", "connect_configuration"}
"""Methods that note their first argument and return it."""
TELLING = ("log", "report", "track")
"""How the functions that are given figures begin."""


def tells(name: str) -> bool:
    """Whether the library's function `name` is given figures to keep."""
    return name.startswith(PACKAGES) and name.rpartition(".")[2].startswith(TELLING)
