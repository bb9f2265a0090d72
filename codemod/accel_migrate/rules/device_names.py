"""A device that was a string is compared by its type: `device == "cuda"` becomes `device.type == "cuda"`.

The accelerator's device is a `torch.device`, which equals no string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner
from accel_migrate.facts.values import Literal, Role

ID = "device-names"
TITLE = "Compare devices by their type"
WHY = "the accelerator's device is no string"


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.home.device is None:
        return
    for _, node in context.facts.nodes(ast.Compare):
        assert isinstance(node, ast.Compare)
        operands = [node.left, *node.comparators]
        devices = [o for o in operands if isinstance(o, ast.Name | ast.Attribute) and _is_string_device(context, o)]
        names = [o for o in operands if isinstance(o, ast.Constant) and isinstance(o.value, str)]
        if len(devices) == 1 and len(names) == 1:
            yield context.replace(ID, devices[0], "{x}.type", WHY, x=Inner(devices[0]))
            if ":" in names[0].value:
                yield context.replace(ID, names[0], repr(names[0].value.split(":")[0]).replace("'", '"'), WHY)


def _is_string_device(context: Context, node: ast.expr) -> bool:
    """Whether `node` reads the variable in which the script keeps its chosen device, as a string."""
    choice = context.home.device
    if choice is None or not context.facts.has_role(node, Role.DEVICE):
        return False
    return any(isinstance(v, Literal) and isinstance(v.value, str) for v in context.facts.of(node)) and ast.unparse(node).split(".")[-1] == ast.unparse(
        choice.target
    ).split(".")[-1]
