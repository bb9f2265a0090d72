"""Parameters that the model gets, or that start to train, after `prepare`: the wrapper knows nothing of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import Made, Prepared, Role
from accel_migrate.quoting import quote

ID = "graph-edit-after-prepare"
TITLE = "The model is changed after prepare: new parameters are not kept equal on the processes"
SEVERITY = Severity.ERROR

_METHODS = {
    "add_module",
    "register_module",
    "register_parameter",
    "resize_token_embeddings",
    "add_adapter",
    "requires_grad_",
    "convert_sync_batchnorm",
}


def check(program: Program) -> Iterator[Alarm]:
    for node, model in _changes(program):
        before = _preparation(program, node, model)
        if before is not None:
            yield Alarm(
                node,
                f"`{quote(node)}` changes the model after it was prepared (line {before.lineno}): gradients of what is new are not averaged, so each process trains its own, or the reduction waits for those that stay away",
                "finish the architecture and what is frozen first, make the optimizer from it, then prepare both in one call",
            )


def _changes(program: Program) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr]]:
    """Statements and calls that give a model parameters, with the model."""
    for _, node in program.facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        for target in node.targets:
            if (
                isinstance(target, ast.Attribute)
                and _holds_parameters(program, node.value)
                and not (isinstance(target.value, ast.Name) and target.value.id == "self")
            ):
                yield node, target.value
            if (
                isinstance(target, ast.Attribute)
                and target.attr == "requires_grad"
                and isinstance(node.value, ast.Constant)
            ):
                yield from _of_parameters(program, node, target)
    for call, (_, method) in program.facts.methods.items():
        if method in _METHODS and isinstance(call.func, ast.Attribute):
            yield call, call.func.value


def _of_parameters(program: Program, node: ast.stmt, target: ast.Attribute) -> Iterator[tuple[ast.stmt, ast.expr]]:
    """`for p in model.parameters(): p.requires_grad = True`"""
    for loop in (a for a in program.facts.ancestors(node) if isinstance(a, ast.For)):
        call = loop.iter
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in {"parameters", "named_parameters"}
        ):
            yield node, call.func.value


def _holds_parameters(program: Program, value: ast.expr) -> bool:
    made = any(
        isinstance(n, ast.Call)
        and any(isinstance(v, Made) and v.role is Role.MODEL and v.site is n for v in program.facts.of(n))
        for n in ast.walk(value)
    )
    return made or any(
        isinstance(n, ast.Call) and program.facts.external.get(n, "").endswith("nn.Parameter") for n in ast.walk(value)
    )


def _preparation(program: Program, node: ast.AST, model: ast.expr) -> ast.Call | None:
    """The `prepare` above `node`, in its function, of the model that `model` is, wrapped or not."""
    sites = {s for s in program.sites(model)}
    function = program.facts.function(node)
    for p in program.preparations:
        if (
            program.facts.function(p.call) is function
            and p.call.lineno < node.lineno
            and program.facts.has_role(p.argument, Role.MODEL)
        ):  # type: ignore[attr-defined]
            same = sites & program.sites(p.argument) or any(
                isinstance(v, Prepared) and v.call is p.call and v.index == p.index for v in program.facts.of(model)
            )
            if same and program.facts.has_role(model, Role.MODEL) and not _is_other_branch(program, p.call, node):
                return p.call
    return None


def _is_other_branch(program: Program, one: ast.AST, other: ast.AST) -> bool:
    return any(
        isinstance(a, ast.If) and not program.facts.inside(other, a) and any(isinstance(n, ast.Return) for n in a.body)
        for a in program.facts.ancestors(one)
    )
