"""A training loop over a loader that was not prepared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.call_sites import argument
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "loader-not-prepared"
TITLE = "The training loop reads a loader that was not prepared"
SEVERITY = Severity.ERROR

_MOST_CALLS = 4
"""Through how many calls samples are followed back."""
_OWN_SHARE = {
    "process_index",
    "local_process_index",
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
        if not sites or any(_shares_out(program, site) or _holds_own_results(program, site) for site in sites) or _cuts_itself(node):
            continue
        yield Alarm(
            iterated,
            f"every process trains on all samples of `{quote(iterated)}`, in an order of its own or in the same one: nothing is shared out",
            "hand the loader to `accelerator.prepare(...)` and loop over what it returns",
        )


def _shares_out(program: Program, site: ast.AST) -> bool:
    return any(_is_own_share(node) for node in program.flow.origins(site))


def _holds_own_results(program: Program, site: ast.AST) -> bool:
    """Whether the samples are what the prepared model made on this process, as in reinforcement learning; parameters are followed to the calls."""
    pending, seen = [site], set[ast.AST]()
    for _ in range(_MOST_CALLS):
        origins = [n for n in program.flow.origins(*pending) if n not in seen]
        seen.update(origins)
        if any(isinstance(n, ast.Call) and program.is_prepared_model(n.func) for n in origins):
            return True
        pending = [value for n in origins if isinstance(n, ast.Name) for value in _passed(program, n)]
    return False


def _passed(program: Program, name: ast.Name) -> Iterator[ast.expr]:
    """What calls hand to the parameter that `name` is."""
    function = program.facts.function(name)
    for call in program.facts.callers.get(function, {}):  # type: ignore[call-overload]
        given = argument(program, call, function, name.id)  # type: ignore[arg-type]
        if given is not None:
            yield given


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
