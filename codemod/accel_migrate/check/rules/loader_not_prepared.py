"""A training loop over a loader that was not prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "loader-not-prepared"
TITLE = "The training loop reads a loader that was not prepared"
SEVERITY = Severity.ERROR

_OWN_SHARE = {
    "process_index",
    "split_between_processes",
    "shard",
    "split_dataset_by_node",
    "DistributedSampler",
    "get_rank",
    "dp_rank",
    "data_parallel_rank",
    "shard_batch",
    "rank",
}
"""Names with which a script shares out its samples itself."""


def check(program: Program) -> Iterator[Alarm]:
    for node, loop in program.facts.loops.items():
        if (
            not loop.trains
            or not program.calls_in(node, "backward")
            or any(isinstance(v, Prepared) for v in loop.loaders)
        ):
            continue
        iterated = node.iter  # type: ignore[attr-defined]
        sites = [v.site for v in loop.loaders if isinstance(v, Made) and v.role is Role.LOADER]
        if not sites or any(_shares_out(program, site) for site in sites) or _cuts_itself(node):
            continue
        yield Alarm(
            iterated,
            f"every process trains on all samples of `{quote(iterated)}`, in an order of its own or in the same one: nothing is shared out",
            "hand the loader to `accelerator.prepare(...)` and loop over what it returns",
        )


def _shares_out(program: Program, site: ast.AST) -> bool:
    return any(_is_own_share(node) for node in program.flow.origins(site))


def _cuts_itself(loop: ast.AST) -> bool:
    return any(_is_own_share(node) for node in ast.walk(loop))


def _is_own_share(node: ast.AST) -> bool:
    name = (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else getattr(node, "arg", "")
    )
    return name in _OWN_SHARE
