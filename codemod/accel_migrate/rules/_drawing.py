"""Edits that draw for the global batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit


def draw(context: Context, call: ast.Call, rule: str, why: str) -> Iterator[Edit]:
    """`torch.randn(n, 8)` becomes `accelerator.draw(torch.randn, n, 8)`."""
    text, imports = context.say_or_import("@accelerator@.draw(", call, rule)
    arguments = ", ".join(
        [
            "{f}",
            *(f"{{a{i}}}" for i in range(len(call.args))),
            *(f"{k.arg}={{k{i}}}" for i, k in enumerate(call.keywords)),
        ]
    )
    parts: dict[str, ast.AST] = {"f": call.func}
    parts |= {f"a{i}": a for i, a in enumerate(call.args)} | {f"k{i}": k.value for i, k in enumerate(call.keywords)}
    yield context.replace(rule, call, f"{text}{arguments})", why, **parts)
    yield from imports
