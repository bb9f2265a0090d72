"""The loss divided by hand inside `accumulate()`, whose `backward` divides it too."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.edits import DeleteStatement, ReplaceExpression, Severity
from accel_migrate.quoting import quote

ID = "double-loss-scaling"
TITLE = "The loss is divided by the number of accumulation steps twice"
SEVERITY = Severity.ERROR


def check(program: Program) -> Iterator[Alarm]:
    setting = program.setting("gradient_accumulation_steps") or program.setting("num_steps")
    if setting is None or (isinstance(setting, ast.Constant) and setting.value == 1):
        return
    for call in program.calls_of("backward"):
        if program.accumulation(call) is None or not call.args:
            continue
        for division in program.flow.origins(call.args[0]):
            if (
                program.accumulation(division) is program.accumulation(call)
                and (by := _divisor(division)) is not None
                and _is_steps(by, setting)
            ):
                yield Alarm(
                    division,
                    f"`accelerator.backward` divides by `gradient_accumulation_steps` already: the gradients are {ast.unparse(by)} times too small, on any number of processes",
                    f"leave out the division by `{quote(by)}`",
                    _fix(program, division),
                )


def _divisor(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return node.right
    return node.value if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) else None


def _is_steps(by: ast.expr, setting: ast.expr) -> bool:
    if ast.unparse(by) == ast.unparse(setting):
        return True
    name = by.id if isinstance(by, ast.Name) else by.attr if isinstance(by, ast.Attribute) else ""
    return "accum" in name.lower()


def _fix(program: Program, division: ast.AST) -> Fix | None:
    source = program.source(division)
    if isinstance(division, ast.BinOp):
        return Fix(
            (
                ReplaceExpression(
                    source=source, rule=ID, node=division, template="{loss}", parts={"loss": division.left}
                ),
            )
        )
    return Fix((DeleteStatement(source=source, rule=ID, node=division),)) if isinstance(division, ast.stmt) else None
