"""Names of the wrapped model's parameters begin with `module.` on several processes: what is kept by name is never found."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.flow import FILLING
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "ema-needs-unwrapped-model"
TITLE = "Parameters of the wrapped model are looked up by name"
SEVERITY = Severity.ERROR
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    if not program.wraps:
        return
    for call, (_, method) in program.facts.methods.items():
        if not isinstance(call.func, ast.Attribute) or not program.is_prepared_model(call.func.value):
            continue
        if (method == "named_parameters" and _looks_up(program, call)) or (
            method == "state_dict" and _is_loaded(program, call)
        ):
            model = quote(call.func.value)
            yield Alarm(
                call,
                f"on several processes the names of `{model}` begin with `module.`, those of the model it is compared with do not: nothing is found, and an average never moves",
                f"accelerator.unwrap_model({model}).{method}()",
            )


def _looks_up(program: Program, call: ast.Call) -> bool:
    """Whether names of a loop over `call` are keys of something that was made of the bare model."""
    loop = next(
        (a for a in program.facts.ancestors(call) if isinstance(a, ast.For | ast.comprehension | ast.FunctionDef)), None
    )
    if (
        not isinstance(loop, ast.For)
        or not program.facts.inside(call, loop.iter)
        or not isinstance(loop.target, ast.Tuple)
    ):
        return False
    name = loop.target.elts[0].id if isinstance(loop.target.elts[0], ast.Name) else ""
    for node in (n for s in loop.body for n in ast.walk(s)):
        keyed = (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and isinstance(node.slice, ast.Name)
            and node.slice.id == name
        )
        asked = (
            isinstance(node, ast.Compare)
            and isinstance(node.left, ast.Name)
            and node.left.id == name
            and isinstance(node.ops[0], ast.In | ast.NotIn)
        )
        table = node.value if keyed else node.comparators[0] if asked else None  # type: ignore[attr-defined]
        if table is not None and not _made_of_wrapped(program, table) and not _is_filled(loop, table, name):
            return True
    return False


def _is_filled(loop: ast.For, table: ast.expr, name: str) -> bool:
    """Whether the loop itself collects the names in `table`: they are then those of the wrapped model."""
    calls = (n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute))
    puts = (c for c in calls if c.func.attr in FILLING and ast.unparse(c.func.value) == ast.unparse(table))  # type: ignore[attr-defined]
    return any(ast.unparse(a) == name for c in puts for a in c.args)


def _made_of_wrapped(program: Program, table: ast.expr) -> bool:
    """Whether the names in `table` come from a wrapped model, too."""
    nodes = list(program.flow.origins(table))
    calls = [
        n
        for n in nodes
        if isinstance(n, ast.Call)
        and program.method(n) in {"named_parameters", "state_dict"}
        and isinstance(n.func, ast.Attribute)
    ]
    return any(program.is_prepared_model(n.func.value) for n in calls)  # type: ignore[attr-defined]


def _is_loaded(program: Program, call: ast.Call) -> bool:
    """`teacher.load_state_dict(model.state_dict())` of a model that was not prepared."""
    parent = program.facts.parents.get(call)
    if (
        not isinstance(parent, ast.Call)
        or not isinstance(parent.func, ast.Attribute)
        or parent.func.attr != "load_state_dict"
    ):
        return False
    return program.is_model(parent.func.value) and not program.is_prepared(parent.func.value)
