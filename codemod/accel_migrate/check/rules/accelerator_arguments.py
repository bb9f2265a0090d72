"""`Accelerator(...)` is given an argument that it does not have, that it passes over, or a dict where it takes a plugin."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "accelerator-arguments"
TITLE = "Accelerator is given an argument that it does not take"
SEVERITY = Severity.ERROR

_BOTH = {
    "device_placement", "split_batches", "mixed_precision", "gradient_accumulation_steps", "cpu", "dataloader_config", "fsdp_plugin", "rng_types", "log_with",
    "project_dir", "project_config", "gradient_accumulation_plugin", "step_scheduler_with_optimizer", "kwargs_handlers", "parallelism_config",
    "deepspeed_plugin", "megatron_lm_plugin", "dynamo_backend", "dynamo_plugin",
}  # fmt: skip
KNOWN = {
    "accel_runtime": _BOTH | {"sync_batchnorm", "tf32", "deepspeed_plugins"},
    "accelerate": _BOTH | {"torch_tp_plugin", "deepspeed_plugins"},
}
"""The arguments of each library's Accelerator; of Hugging Face Accelerate's those of version 1.15."""
_GONE = {
    "fp16": 'mixed_precision="fp16"',
    "logging_dir": "project_dir",
    "dispatch_batches": "dataloader_config=DataLoaderConfiguration(dispatch_batches=...)",
    "even_batches": "dataloader_config=DataLoaderConfiguration(even_batches=...)",
    "use_seedable_sampler": "dataloader_config=DataLoaderConfiguration(use_seedable_sampler=...)",
}
"""Arguments of older versions, and what has taken their place."""


def check(program: Program) -> Iterator[Alarm]:
    for call in program.makers:
        for keyword in call.keywords:
            alarm = _alarm(program, keyword)
            if alarm is not None:
                yield alarm


def _alarm(program: Program, keyword: ast.keyword) -> Alarm | None:
    name, value = keyword.arg, keyword.value
    if name is None:
        return None
    if name in _GONE:
        return Alarm(value, f"`{name}` is no argument of Accelerator any more: a TypeError with the version of today", _GONE[name], severity=Severity.WARNING)
    if name not in KNOWN[program.library]:
        close = difflib.get_close_matches(name, KNOWN[program.library], n=1)
        advice = f"{close[0]}=..." if close else "leave it out, or set it where the library has it (a plugin, a configuration, the launch)"
        return Alarm(value, f"`{name}` is no argument of Accelerator: a TypeError before anything starts", advice)
    if name.endswith("_plugin") and _is_settings(value) and (program.library, name) != ("accel_runtime", "deepspeed_plugin"):
        return Alarm(value, f"`{name}={quote(value)}` is a dict of settings where an object is taken: an error, or settings that nobody reads", _plugin(name))
    if name == "split_batches" and program.library == "accelerate" and not (isinstance(value, ast.Constant) and not value.value):
        message = "Accelerate passes over `split_batches` here: each process takes whole batches, and prepared schedulers tick once for each process"
        return Alarm(value, message, "dataloader_config=DataLoaderConfiguration(split_batches=True)", severity=Severity.WARNING)
    return None


def _is_settings(value: ast.expr) -> bool:
    """A dict with plain values; one of plugins by name may be meant."""
    if not isinstance(value, ast.Dict):
        return False
    return any(isinstance(item, ast.Constant | ast.Dict | ast.List) for item in value.values)


def _plugin(name: str) -> str:
    classes = {"deepspeed_plugin": "DeepSpeedPlugin", "fsdp_plugin": "FullyShardedDataParallelPlugin", "gradient_accumulation_plugin": "GradientAccumulationPlugin"}
    return f"{name}={classes.get(name, 'an object of its class')}(...)" if name in classes else f"{name}= an object of its class"
