"""What libraries show to a person, write to a file or send to a tracker: figures among their arguments are those of the global batch."""

from __future__ import annotations

from accel_migrate.facts.values import Box, Instance, Local, Values

_LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "exception", "log")
FUNCTIONS = {
    "json.dump", "json.dumps", "pickle.dump", "pickle.dumps", "yaml.dump", "yaml.safe_dump", "joblib.dump", "warnings.warn",
    "wandb.log", "wandb.run.log", "wandb.run.summary.update", "swanlab.log", "trackio.log", "mlflow.log_metric", "mlflow.log_metrics",
    *(f"logging.{level}" for level in _LEVELS),
}  # fmt: skip
METHODS = {"writerow", "writerows", "log_metric", "log_metrics", "add_scalar", "add_scalars"}
"""Methods of objects of which nothing else is known."""


def is_shown_by(method: str, base: Values) -> bool:
    """Whether `base.method(...)` shows its arguments: of no object of the program, no tensor and no container."""
    return method in METHODS and not any(isinstance(v, Instance | Local | Box) for v in base)
