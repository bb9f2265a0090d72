"""Training through the unwrapped model: the processes never exchange their gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.values import Role, Spread
from accel_migrate.quoting import quote

ID = "forward-bypasses-wrapper"
TITLE = "The loss comes from the unwrapped model: gradients are not averaged"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})

_HARMLESS = {
    "parameters",
    "named_parameters",
    "state_dict",
    "train",
    "eval",
    "zero_grad",
    "to",
    "requires_grad_",
    "modules",
    "buffers",
}


def check(program: Program) -> Iterator[Alarm]:
    prepared = program.prepared_sites(Role.MODEL)
    losses = [c.args[0] for c in program.calls_of("backward") if c.args]
    for _, call in program.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        model = _unwrapped(program, call.func, prepared)
        if (
            model is None
            or not program.wraps
            or program.is_without_gradients(call)
        ):
            continue
        if _takes_outputs(program, call) or (model is not call.func and not _takes_rows(program, call)):
            continue
        here = [loss for loss in losses if _in_one_step(program, call, loss)]
        if program.flow.reaches(call, *here):
            yield Alarm(
                call,
                f"`{quote(call)}` goes past the wrapper that `prepare` put around the model: the processes do not average its gradients, and their weights part",
                "call what `prepare` returned; another method than `forward` has to be reached through `forward` (`model(x, mode=...)`)",
            )


def _in_one_step(program: Program, call: ast.AST, loss: ast.AST) -> bool:
    """Whether both run in one round of the same loop, or in a function of their own."""
    loops = (a for a in program.facts.ancestors(call) if isinstance(a, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module))
    around = next(loops, None)
    inner = next(a for a in program.facts.ancestors(loss) if isinstance(a, ast.For | ast.While | ast.FunctionDef | ast.AsyncFunctionDef | ast.Module))
    return inner is around or (isinstance(around, ast.For | ast.While) and program.facts.inside(loss, around))


def _takes_outputs(program: Program, call: ast.Call) -> bool:
    """Whether `call` computes something from what the wrapped model returned: `model.loss_function(outputs.logits)`."""
    nodes = program.flow.origins(*call.args, *(k.value for k in call.keywords))
    return any(isinstance(n, ast.Call) and program.is_prepared_model(n.func) for n in nodes)


def _takes_rows(program: Program, call: ast.Call) -> bool:
    """Whether `call` is given rows of a batch: what makes a state for them takes their number only."""
    return any(Spread.SHARD in spreads(program.facts.of(a)) for a in (*call.args, *(k.value for k in call.keywords)))


def _unwrapped(program: Program, func: ast.expr, prepared: set[ast.AST]) -> ast.expr | None:
    """The unwrapped model that `func` calls, or of which it is a method; only where the script has the wrapped one, too."""
    if isinstance(func, ast.Attribute) and func.attr not in _HARMLESS | {"module", "forward"}:
        return func.value if _is_unwrapping(program, func.value, prepared) else None
    if isinstance(func, ast.Attribute) and func.attr == "forward":
        return (
            func.value
            if _is_unwrapping(program, func.value, prepared)
            or (program.is_prepared_model(func.value) and _is_model(program, func.value, prepared))
            else None
        )
    return func if _is_unwrapping(program, func, prepared) else None


def _is_unwrapping(program: Program, node: ast.expr, prepared: set[ast.AST]) -> bool:
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return program.is_prepared_model(node.value)
    if not _is_model(program, node, prepared) or program.is_prepared(node):
        return False
    origins = [n for n in program.flow.origins(node) if isinstance(n, ast.Call)]
    return any(
        program.accelerator_calls.get(n) == "unwrap_model" or program.method(n) == "unwrap_model" for n in origins
    )


def _is_model(program: Program, node: ast.expr, prepared: set[ast.AST]) -> bool:
    return program.is_model(node) and bool(program.sites(node) & prepared)
