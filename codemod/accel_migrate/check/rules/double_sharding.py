"""Samples that are shared out by the script and then once more by `prepare`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.catalog import DISTRIBUTED_SAMPLERS
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

ID = "double-sharding"
TITLE = "Samples are shared out twice: by the script, and by prepare"
SEVERITY = Severity.ERROR

_BY_HAND = {"shard", "split_dataset_by_node", "select"}
_RANKS = {"process_index", "local_process_index"}


def check(program: Program) -> Iterator[Alarm]:
    for site in program.prepared_sites(Role.LOADER):
        if not isinstance(site, ast.Call):
            continue
        found = next(
            (n for n in program.flow.origins(*site.args, *(k.value for k in site.keywords)) if _shares_out(program, n)),
            None,
        )
        if found is not None:
            yield Alarm(
                found,
                f"`{quote(found)}` gives each process its share, and `prepare` shares that out once more: most samples are never seen (of 2 processes each sees a quarter)",
                "leave the sharing out to `prepare`: an ordinary sampler, or shuffle=True, over the whole data set",
            )


def _shares_out(program: Program, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = program.facts.external.get(node, "")
    if name in DISTRIBUTED_SAMPLERS:
        return program.library == "accelerate" or program.is_on(
            "split_batches"
        )  # accel_runtime leaves such loaders as they are
    arguments = [*node.args, *(k.value for k in node.keywords)]
    return program.method(node) in _BY_HAND and any(
        isinstance(n, ast.Attribute) and n.attr in _RANKS for a in arguments for n in ast.walk(a)
    )
