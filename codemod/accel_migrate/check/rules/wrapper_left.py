"""A model that is wrapped by hand and by `prepare`."""

from __future__ import annotations

from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.facts.catalog import DATA_PARALLEL, DISTRIBUTED_DATA_PARALLEL
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "wrapper-left"
TITLE = "DataParallel or DistributedDataParallel is left beside prepare"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    prepared = program.prepared_sites(Role.MODEL)
    for call, name in program.facts.external.items():
        if (
            name not in DATA_PARALLEL | DISTRIBUTED_DATA_PARALLEL
            or not call.args
            or not program.sites(call.args[0]) & prepared
            or program.is_under(call, "num_processes")
        ):
            continue
        edit = ReplaceExpression(
            source=program.source(call), rule=ID, node=call, template="{model}", parts={"model": call.args[0]}
        )
        what = (
            "every process copies the model onto all GPUs, beside the copies of the others"
            if name in DATA_PARALLEL
            else "gradients are reduced twice, and keys begin with `module.module.`"
        )
        yield Alarm(
            call,
            f"`{quote(call.func)}` around a model that `prepare` wraps too: {what}",
            "leave it out: prepare does it",
            Fix((edit,), safe=False),
        )
