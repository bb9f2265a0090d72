"""A device that was a string is compared by its type: `device == "cuda"` becomes `device.type == "cuda"`.

The accelerator's device is a `torch.device`, which equals no string. Where a script uses the string in other ways too,
rule accelerator keeps it a string (`accelerator.device.type`), and only names like `cuda:0` are compared otherwise.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner
from accel_migrate.facts.device_text import comes_from, is_compared_by_type

ID = "device-names"
TITLE = "Compare devices by their type"
WHY = "the accelerator's device is no string"


def apply(context: Context) -> Iterator[Edit | Finding]:
    for _, node in context.facts.nodes(ast.Compare):
        assert isinstance(node, ast.Compare)
        for operand in (node.left, *node.comparators):
            if isinstance(operand, ast.Name | ast.Attribute):
                yield from _by_type(context, operand)


def _by_type(context: Context, device: ast.expr) -> Iterator[Edit]:
    name = is_compared_by_type(context.facts, device, context.home.choices)
    if name is None:
        return
    numbered = ":" in name.value
    if not any(comes_from(context.facts, device, choice) for choice in context.device_texts):
        yield context.replace(ID, device, "{x}.type", WHY, x=Inner(device))
    elif numbered:
        yield context.replace(ID, device, '{x}.split(":")[0]', WHY, x=Inner(device))
    if numbered:
        yield context.replace(ID, name, repr(name.value.split(":")[0]).replace("'", '"'), WHY)
