"""A model spread over all GPUs by `device_map`, and trained by several processes that each want all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Role

ID = "device-map-auto"
TITLE = 'device_map="auto" for a model that is prepared'
SEVERITY = Severity.ERROR

_SPREADING = {"auto", "balanced", "balanced_low_0", "sequential"}


def check(program: Program) -> Iterator[Alarm]:
    prepared = program.prepared_sites(Role.MODEL)
    for site in prepared:
        for keyword in site.keywords if isinstance(site, ast.Call) else ():
            if (
                keyword.arg == "device_map"
                and isinstance(keyword.value, ast.Constant)
                and keyword.value.value in _SPREADING
            ):
                yield Alarm(
                    keyword.value,
                    "each process spreads the model over all GPUs: prepare refuses it on several processes, or they run out of memory",
                    'leave device_map out, or {"": accelerator.process_index} to put the whole model on each process\'s own GPU',
                )
