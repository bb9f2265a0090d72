"""A loop that some processes leave earlier than others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.diverging import Diverging
from accel_migrate.facts.facts import Facts
from accel_migrate.quoting import quote

ID = "rank-dependent-loop-exit"
TITLE = "Processes leave the training loop at different steps"
SEVERITY = Severity.ERROR

_EXITS = {"sys.exit", "exit", "quit"}


def check(program: Program) -> Iterator[Alarm]:
    for _, node in program.facts.nodes(ast.If, ast.While):
        assert isinstance(node, ast.If | ast.While)
        leaves = node in _loops(program, node) if isinstance(node, ast.While) else _leaves(program, node)
        why = _differs(program, node) if leaves else ""
        if why:
            yield Alarm(
                node.test,
                f"`{quote(node.test)}` {why}: the process that leaves the loop first leaves the others waiting in their next backward pass or gather",
                "decide together: accelerator.set_trigger() where it holds, then `if accelerator.check_trigger():` on every process; or reduce the value first",
            )


def _loops(program: Program, node: ast.While) -> tuple[ast.AST, ...]:
    return (node,) if program.reach.trains(node) else ()


def _leaves(program: Program, node: ast.If) -> bool:
    """Whether a branch ends a loop around `node` in which models are trained."""
    for inner in (n for s in (*node.body, *node.orelse) for n in ast.walk(s)):
        if isinstance(inner, ast.Break) and program.training_loop(node) is not None and _ended_by(program, inner, node):
            return True
        leaving = isinstance(inner, ast.Return) or (
            isinstance(inner, ast.Call) and program.facts.external.get(inner) in _EXITS
        )
        if (
            leaving
            and program.training_loop(node) is not None
            and not isinstance(program.facts.function(inner), ast.Lambda)
        ):
            return True
    return False


def _ended_by(program: Program, jump: ast.AST, node: ast.If) -> bool:
    """Whether the loop that `jump` ends lies around `node` and trains, or evaluates with collectives."""
    loop = next((a for a in program.facts.ancestors(jump) if isinstance(a, ast.For | ast.While)), None)
    return loop is not None and not program.facts.inside(loop, node) and program.reach.trains(loop)


def _differs(program: Program, node: ast.If | ast.While) -> str:
    """Why the test may hold on one process and not on another; empty where it is the same on all."""
    if program.ranks.differs(node.test):
        return "asks for the rank"
    origins = list(program.flow.origins(node.test, stop=program.is_gathered))
    if any(_is_decided_together(program, n) for n in ast.walk(node.test)):
        return ""
    if any(n in program.facts.conversions and not _is_whole(program, n) for n in origins):
        return "is computed from this process's share of the samples"
    if any(program.is_own_loss(n) and not _is_about_none(program, n) for n in ast.walk(node.test)):
        return "is asked of this process's loss"
    if _diverging(program.facts).differs(node.test) and not any(
        program.is_gathered(n) for n in program.flow.origins(node.test)
    ):
        return "depends on the clock or the state of this process"
    return ""


def _is_about_none(program: Program, node: ast.AST) -> bool:
    parent = program.facts.parents.get(node)
    return isinstance(parent, ast.Compare) and isinstance(parent.ops[0], ast.Is | ast.IsNot)


def _is_decided_together(program: Program, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and program.accelerator_calls.get(node) in {
        "check_trigger",
        "reduce",
        "gather",
        "gather_for_metrics",
    }


def _is_whole(program: Program, node: ast.AST) -> bool:
    """Whether what is converted was not local: a count of batches is the same on all processes."""
    from accel_migrate.facts.values import Spread, locals_of

    return {v.spread for v in locals_of(program.facts.conversions[node].values)} <= {Spread.COUNT, Spread.RATE}  # type: ignore[index]


@lru_cache(maxsize=2)
def _diverging(facts: Facts) -> Diverging:
    return Diverging(facts)
