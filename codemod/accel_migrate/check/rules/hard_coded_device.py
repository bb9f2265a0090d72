"""A GPU by number: every process works on the same one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.quoting import quote

ID = "hard-coded-device"
TITLE = "A GPU is named by its number"
SEVERITY = Severity.ERROR

_NUMBERED = re.compile(r"^(cuda|xpu|npu|hpu):\d+$")


def check(program: Program) -> Iterator[Alarm]:
    if not program.makers:
        return
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        number = _numbered(program, call)
        if number is None or program.is_under(call, "num_processes"):
            continue
        own = _name(program, call)
        text = (
            isinstance(number, ast.Constant)
            and isinstance(number.value, str)
            and own is not None
            and program.method(call) == "to"
        )
        edit = ReplaceExpression(source=program.source(call), rule=ID, node=number, template=f"{own}.device")
        yield Alarm(
            number,
            f"`{quote(call)}` puts it on one and the same GPU for all processes of a machine: they share its memory, and collectives between tensors of one GPU fail",
            "accelerator.device, which is each process's own",
            Fix((edit,), safe=False) if text else None,
        )


def _numbered(program: Program, call: ast.Call) -> ast.expr | None:
    """The number, or the name with one, that `call` is given as a device."""
    name, method = program.facts.external.get(call, ""), program.method(call)
    arguments = [*call.args[:1], *(k.value for k in call.keywords if k.arg in {"device", "map_location"})]
    for node in arguments:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and _NUMBERED.match(value):
            return node
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and (name == "torch.cuda.set_device" or (method == "cuda" and isinstance(call.func, ast.Attribute)))
        ):
            return node
    return None
