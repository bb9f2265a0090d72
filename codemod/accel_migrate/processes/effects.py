"""Whether code does anything, told by its text."""

from __future__ import annotations

import ast

HARMLESS = {
    "int", "float", "str", "bool", "len", "min", "max", "dict", "list", "tuple", "os.getenv", "os.environ.get", "os.getpid", "torch.device",
    "torch.cuda.device_count", "torch.cuda.is_available", "torch.cuda.current_device", "torch.accelerator.device_count",
    "torch.accelerator.is_available", "torch.accelerator.current_accelerator", "torch.distributed.get_rank", "dist.get_rank",
    "dist.get_world_size", "torch.distributed.get_world_size", "contextlib.nullcontext", "nullcontext", "socket.gethostname", "PartialState",
}  # fmt: skip
"""Calls that only look something up or convert it."""


def has_no_effect(node: ast.expr) -> bool:
    """Whether evaluating `node` only looks things up."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) not in HARMLESS:
            return False
        if isinstance(inner, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return False
    return True


def looks_only(iterated: ast.expr) -> bool:
    """Whether a loop over `iterated` does nothing by itself."""
    methods = {"parameters", "named_parameters", "items", "values", "keys"}
    if isinstance(iterated, ast.Call) and isinstance(iterated.func, ast.Attribute) and iterated.func.attr in methods:
        return has_no_effect(iterated.func.value)
    return has_no_effect(iterated) or (isinstance(iterated, ast.Call) and ast.unparse(iterated.func) == "range" and all(map(has_no_effect, iterated.args)))


def is_empty(block: list[ast.stmt]) -> bool:
    """Whether a block holds nothing but `pass` and a docstring."""
    return all(isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)) for s in block)
