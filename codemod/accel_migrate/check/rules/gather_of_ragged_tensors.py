"""Tensors of another width on each process are gathered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "gather-of-ragged-tensors"
TITLE = "What is gathered may have another width on each process"
SEVERITY = Severity.WARNING

_EVEN = {"pad_across_processes", "pad"}


def check(program: Program) -> Iterator[Alarm]:
    for call in program.calls_of("gather", "gather_for_metrics"):
        if not call.args:
            continue
        nodes = list(program.flow.origins(call.args[0]))
        generated = [n for n in nodes if isinstance(n, ast.Call) and program.method(n) == "generate"]
        decoded = any(isinstance(n, ast.Call) and program.method(n) in {"batch_decode", "decode"} for n in nodes)
        evened = any(isinstance(n, ast.Call) and program.method(n) in _EVEN for n in nodes)
        if generated and not evened and not decoded and program.loop_over(call) is not None:
            yield Alarm(
                call,
                f"`{quote(generated[0])}` stops at another length on each process: the gather waits for ever, or stops with a size mismatch",
                "tokens = accelerator.pad_across_processes(tokens, dim=1, pad_index=tokenizer.pad_token_id) first",
            )
