"""Hand-written distributed training: is there any, does it always run, and where does it start."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Function

INIT = {"torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"}

STARTERS = {
    "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "torch.multiprocessing.Process",
    "multiprocessing.Process", "torch.multiprocessing.spawn.spawn",
}  # fmt: skip


def process_group_calls(facts: Facts) -> list[ast.Call]:
    return [call for call, name in facts.external.items() if name in INIT]


def is_distributed(facts: Facts) -> bool:
    """Whether the program always trains on a process group; a branch which a flag turns on does not count."""
    return any(not _is_optional(facts, call) for call in process_group_calls(facts))


def spawns(facts: Facts) -> ast.Call | None:
    """The call with which the program always starts its own training processes."""
    training = {facts.function(b.call) for b in facts.backwards.values()}
    for call, name in facts.external.items():
        if name in STARTERS and not _is_optional(facts, call):
            handed = [v.node for a in (*call.args, *(k.value for k in call.keywords)) for v in facts.of(a) if isinstance(v, Function)]
            if any(f in training or _reaches(facts, f, set(facts.backwards), set()) for f in handed):
                return call
    return None


def _is_optional(facts: Facts, call: ast.Call) -> bool:
    return any(isinstance(a, ast.If) and "__name__" not in ast.unparse(a.test) for a in facts.ancestors(call))


def start_of(facts: Facts, scope: Scope) -> ast.stmt | None:
    """The first statement in `scope` that makes the process group, by itself or through what it calls."""
    wanted = set(process_group_calls(facts))
    for statement in scope.node.body:  # type: ignore[attr-defined]
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        if _reaches(facts, statement, wanted, set()):
            return statement
    return None


def _reaches(facts: Facts, node: ast.AST, wanted: set[ast.Call], seen: set[ast.AST]) -> bool:
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        if inner in wanted:
            return True
        for callee in facts.callees.get(inner, ()):
            if callee not in seen:
                seen.add(callee)
                if _reaches(facts, callee, wanted, seen):
                    return True
    return False
