"""Models that a library runs before they are prepared, on inputs of its own: to count what they cost, to draw or to trace them."""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Role, Values

RUNNERS = {
    "FlopCountAnalysis",
    "add_graph",
    "flop_count",
    "get_model_complexity_info",
    "make_dot",
    "profile",
    "summary",
    "trace",
}
"""Functions and methods of thop, ptflops, fvcore, torchinfo, torchsummary, torchviz, tensorboard and torch.jit."""


def runs_elsewhere(facts: Facts, move: ast.Call, moved: Values) -> bool:
    """Whether the model that `move` brings to the device is then run by a library: it must be there by then."""
    models = {v for v in moved if facts.role(v) is Role.MODEL}
    function = facts.function(move)
    return bool(models) and any(
        _runs(facts, call, models)
        and (call.lineno, call.col_offset) > (move.lineno, move.col_offset)
        and facts.function(call) is function
        for _, call in facts.nodes(ast.Call)
    )  # type: ignore[attr-defined]


def _runs(facts: Facts, call: ast.AST, models: set[object]) -> bool:
    assert isinstance(call, ast.Call)
    name = ast.unparse(call.func).rpartition(".")[2]
    given = [*call.args, *(k.value for k in call.keywords if k.arg == "model")]
    return (
        name in RUNNERS and not facts.callees.get(call) and any(models & set(facts.of(argument)) for argument in given)
    )
