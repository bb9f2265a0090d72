"""A contrastive loss sees the negatives of one process only."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "batch-coupled-loss"
TITLE = "A contrastive loss compares the rows of one process only"
SEVERITY = Severity.INFO

_LOSSES = {"cross_entropy", "CrossEntropyLoss"}


def check(program: Program) -> Iterator[Alarm]:
    gathers = {program.method(c) for _, c in program.facts.nodes(ast.Call) if isinstance(c, ast.Call)}
    if gathers & {"gather_with_grad", "all_gather_with_grad", "GatherLayer", "all_gather"}:
        return
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if len(call.args) < 2 or not _is_cross_entropy(program, call):
            continue
        numbers = [
            n
            for n in program.flow.origins(call.args[1])
            if isinstance(n, ast.Call) and program.method(n) == "arange" and _counts_rows(program, n)
        ]
        products = [n for n in program.flow.origins(call.args[0]) if _is_product(program, n)]
        if numbers and products:
            yield Alarm(
                call,
                f"`{quote(call)}` sets each row against the others of its own process: with the same global batch there are 1/N of the negatives",
                "gather the embeddings with their gradients first (accel_runtime: accelerator.gather_with_grad), and number the rows of the whole batch",
            )


def _is_cross_entropy(program: Program, call: ast.Call) -> bool:
    if program.method(call) in _LOSSES:
        return True
    return any(getattr(v, "detail", "").endswith("CrossEntropyLoss") for v in program.facts.of(call.func))


def _counts_rows(program: Program, call: ast.Call) -> bool:
    return bool(call.args) and (
        program.facts.is_local(call.args[0])
        or any(t in ast.unparse(call.args[0]) for t in ("len(", ".size(0)", ".shape[0]"))
    )


def _is_product(program: Program, node: ast.AST) -> bool:
    return (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)) or (
        isinstance(node, ast.Call) and program.method(node) in {"matmul", "mm", "einsum", "cosine_similarity", "cdist"}
    )
