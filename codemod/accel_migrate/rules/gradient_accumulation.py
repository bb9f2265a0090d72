"""Gradient accumulation by hand stays as it is written: its windows are the script's own.

`accumulate()` also steps on the last, shorter window of an epoch and divides by its true length; most hand-written
loops do not. What changes is only when processes talk: gradients are averaged at the end of a window
(`backward(loss, sync=...)`, written by the rule `backward`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Finding, Severity
from accel_migrate.facts.accumulation import accumulation_window

ID = "gradient-accumulation"
TITLE = "Keep hand-written accumulation windows"
WHY = "gradients are averaged once per window"


def apply(context: Context) -> Iterator[Finding]:
    seen: set[ast.If] = set()
    for backward in context.facts.backwards.values():
        window = accumulation_window(context.facts, backward)
        if window is None or window.step in seen:
            continue
        seen.add(window.step)
        yield Finding(
            source=context.source(window.step), node=window.step, rule=ID, severity=Severity.INFO,
            message="the accumulation windows were kept as written, left over batches at the end of an epoch included",
            advice="if len(loader) is a multiple of the window, `with accelerator.accumulate(model):` is the shorter form",
        )  # fmt: skip
