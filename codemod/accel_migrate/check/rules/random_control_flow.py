"""A coin that each process throws by itself decides which parameters a step trains."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.values import ClassValue, Instance, Role
from accel_migrate.quoting import quote

ID = "random-control-flow"
TITLE = "A random choice in forward() decides which parameters get gradients"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})

_COINS = ("random.", "numpy.random.", "torch.rand", "torch.randint", "torch.bernoulli")


def check(program: Program) -> Iterator[Alarm]:
    if program.is_on("find_unused_parameters") or not program.wraps:
        return
    classes = {
        v.cls.node
        for p in program.preparations
        for v in program.facts.of(p.argument)
        if isinstance(v, Instance) and program.facts.role(v) is Role.MODEL
    }
    for _, node in program.facts.nodes(ast.If, ast.IfExp):
        assert isinstance(node, ast.If | ast.IfExp)
        owner = next((a for a in program.facts.ancestors(node) if isinstance(a, ast.ClassDef)), None)
        if (
            owner is None
            or program.facts.class_role(ClassValue(owner, program.facts.scopes[owner])) is not Role.MODEL
            or not classes
        ):
            continue
        if _throws(program, node.test) and (_modules(node, "body") ^ _modules(node, "orelse")) - _elsewhere(program, owner, node):
            yield Alarm(
                node.test,
                f"`{quote(node.test)}` falls differently on each process, and the parameters of the other branch get no gradient: an error in the second step, or processes that wait for each other",
                "draw from a generator that is seeded alike on all processes, and pass DistributedDataParallelKwargs(find_unused_parameters=True); or add the other branch with weight zero",
            )


def _throws(program: Program, test: ast.expr) -> bool:
    """Whether the test is made of something drawn; whether there is a value at all is not drawn."""
    if isinstance(test, ast.UnaryOp):
        return _throws(program, test.operand)
    if isinstance(test, ast.BoolOp):
        return any(_throws(program, value) for value in test.values)
    if (isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot)) or (isinstance(test, ast.Call) and _asks_for_none(program, test)):
        return False
    return any(
        isinstance(n, ast.Call) and program.facts.external.get(n, "").startswith(_COINS)
        for n in program.flow.origins(test)
    )


def _modules(node: ast.If | ast.IfExp, branch: str) -> set[str]:
    """The submodules that a branch calls."""
    part = getattr(node, branch)
    nodes = [n for s in (part if isinstance(part, list) else [part]) for n in ast.walk(s)]
    calls = (n.func for n in nodes if isinstance(n, ast.Call) and not any(isinstance(m, ast.Call) for m in ast.walk(n.func)))
    return {text for func in calls if (text := ast.unparse(func)).startswith("self.")}


def _asks_for_none(program: Program, call: ast.Call) -> bool:
    """`exists(x)`, a function that returns `x is not None`."""
    bodies = [f.body for f in program.facts.callees.get(call, ())]
    returned = [s.value for body in bodies if isinstance(body, list) for s in body if isinstance(s, ast.Return)]
    return bool(returned) and all(isinstance(v, ast.Compare) and isinstance(v.ops[0], ast.Is | ast.IsNot) for v in returned)


def _elsewhere(program: Program, owner: ast.ClassDef, node: ast.If | ast.IfExp) -> set[str]:
    """What methods of the class call outside of the choice: submodules that get their gradients anyway, and methods, which are no submodules."""
    methods = [m for m in owner.body if isinstance(m, ast.FunctionDef)]
    inside = set(ast.walk(node))
    calls = {ast.unparse(n.func) for m in methods for n in ast.walk(m) if isinstance(n, ast.Call) and n not in inside}
    return calls | {f"self.{m.name}" for m in methods}
