"""What only says how the process group is made (backend, address), and the lines that only speak of that."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.distributed import process_group_calls
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.ranks import Place, Ranks

ARGUMENTS = ("backend", "init_method")
SAYING = {"print", "warnings.warn", "logging.info", "logging.warning", "logging.debug"}


def settings_of_groups(facts: Facts, ranks: Ranks) -> set[Place]:
    """The variables and attributes that are handed to `init_process_group` as backend and address."""
    found: set[Place] = set()
    for call in process_group_calls(facts):
        given = [*call.args[:2], *(k.value for k in call.keywords if k.arg in ARGUMENTS)]
        found |= {place for node in given if (place := ranks.place(node)) is not None}
    return found


def talk_of_settings(facts: Facts, ranks: Ranks, places: set[Place]) -> Iterator[ast.If]:
    """`if backend == "nccl": warnings.warn(...)`: conditions on settings whose branches only speak, fail or set settings."""
    for _, node in facts.nodes(ast.If):
        assert isinstance(node, ast.If)
        asked = any(isinstance(n, ast.expr) and ranks.place(n) in places for n in ast.walk(node.test))
        if asked and not node.orelse and all(_only_speaks(facts, ranks, s, places) for s in node.body):
            yield node


def _only_speaks(facts: Facts, ranks: Ranks, statement: ast.stmt, places: set[Place]) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return facts.external.get(statement.value, "") in SAYING
    if isinstance(statement, ast.Assign):
        return all(ranks.place(t) in places or ranks.of(t) is not None for t in statement.targets)
    return isinstance(statement, ast.Raise | ast.Pass)
