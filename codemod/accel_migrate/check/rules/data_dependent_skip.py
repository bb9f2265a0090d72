"""A step that is skipped where this process's rows are not to its liking."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.check.rules.rank_dependent_loop_exit import _is_decided_together
from accel_migrate.edits import Severity
from accel_migrate.facts.catalog import FINITENESS
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread
from accel_migrate.quoting import quote

ID = "data-dependent-skip"
TITLE = "A training step is skipped by the process whose batch asks for it"
SEVERITY = Severity.ERROR


_TOGETHER = "ask for all processes together (bad = accelerator.reduce(torch.isnan(loss).float()) > 0) and skip on all of them; or multiply the loss by zero"


def check(program: Program) -> Iterator[Alarm]:
    for _, node in program.facts.nodes(ast.If):
        assert isinstance(node, ast.If)
        loop = program.training_loop(node)
        if loop is None:
            continue
        inside = [n for s in node.body for n in ast.walk(s)]
        if any(_steps(program, n) for n in inside) and _asks_rows(program, node.test):
            message = f"`{quote(node.test)}` is asked of this process's rows: it steps on some processes and not on others, whose weights part from theirs"
            yield Alarm(node.test, message, _TOGETHER)
            continue
        if not any(_skips(program, n, loop) for n in inside):
            continue
        if _asks_rows(program, node.test) and any(
            c.lineno > node.lineno for c in program.calls_of("backward") if program.facts.inside(c, loop)
        ):
            yield Alarm(
                node.test,
                f"`{quote(node.test)}` is asked of this process's rows: it skips the step, and the others wait for its gradients",
                _TOGETHER,
            )


def _steps(program: Program, node: ast.AST) -> bool:
    """Whether it is an optimizer's step, or a backward pass."""
    if not isinstance(node, ast.Call):
        return False
    if program.accelerator_calls.get(node) == "backward":
        return True
    return isinstance(node.func, ast.Attribute) and node.func.attr == "step" and program.facts.has_role(node.func.value, Role.OPTIMIZER)


def _skips(program: Program, node: ast.AST, loop: ast.AST) -> bool:
    inner = next((a for a in program.facts.ancestors(node) if isinstance(a, ast.For | ast.While)), None)
    return isinstance(node, ast.Continue) and inner is loop


def _asks_rows(program: Program, test: ast.expr) -> bool:
    """Whether the test depends on rows or figures of this process."""
    if _is_decided_together(program, test):
        return False
    if isinstance(test, ast.BoolOp):
        return any(_asks_rows(program, value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _asks_rows(program, test.operand)
    if isinstance(test, ast.Compare):
        structure = isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn)
        return not structure and any(_is_local(program, operand) for operand in (test.left, *test.comparators))
    if isinstance(test, ast.Call) and program.method(test) in FINITENESS:
        return any(
            _is_local(program, n)
            for n in program.flow.origins(*test.args, stop=program.is_gathered)
            if isinstance(n, ast.expr)
        )
    return _is_local(program, test)


def _is_local(program: Program, node: ast.expr) -> bool:
    """Whether the value of `node` is made of this process's rows."""
    local = {Spread.SHARD, Spread.ROW, Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.MIXED}
    if (
        isinstance(node, ast.Call)
        and program.method(node) in {"item", "any", "all", *FINITENESS}
        and not program.is_gathered(node)
    ):
        below = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return any(_is_local(program, n) for n in (*below, *node.args))
    return bool(spreads(program.facts.of(node)) & local) or program.is_own_loss(node)
