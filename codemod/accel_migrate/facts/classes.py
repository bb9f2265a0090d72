"""Project classes: their bases, their methods, and the role of their instances."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Facts


Method = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Lineages:
    """Answers that hold as long as no class gets other bases."""

    ancestries: dict[ast.ClassDef, tuple[ast.ClassDef | str, ...]] = field(default_factory=dict)
    methods: dict[tuple[ast.ClassDef, str], Method | None] = field(default_factory=dict)
    roles: dict[ast.ClassDef, Role | None] = field(default_factory=dict)
    own: dict[ast.ClassDef, dict[str, Method]] = field(default_factory=dict)


def ancestry(facts: Facts, node: ast.ClassDef) -> tuple[ast.ClassDef | str, ...]:
    """`node`, then its base classes depth first: nodes of the project, full names of libraries."""
    known = facts.lineages.ancestries
    if node not in known:
        known[node] = tuple(_ancestry(facts, node))
    return known[node]


def _ancestry(facts: Facts, node: ast.ClassDef) -> Iterator[ast.ClassDef | str]:
    seen: set[ast.ClassDef | str] = set()
    pending: list[ast.ClassDef | str] = [node]
    while pending:
        current = pending.pop(0)
        if current in seen:
            continue
        seen.add(current)
        yield current
        if isinstance(current, ast.ClassDef):
            pending[0:0] = list(facts.bases.get(current, ()))


def find_method(facts: Facts, node: ast.ClassDef, name: str) -> Method | None:
    """The method `name` that instances of `node` have, inherited ones included."""
    known, key = facts.lineages.methods, (node, name)
    if key not in known:
        own = (own_method(facts, base, name) for base in ancestry(facts, node) if isinstance(base, ast.ClassDef))
        known[key] = next((method for method in own if method is not None), None)
    return known[key]


def own_method(facts: Facts, node: ast.ClassDef, name: str) -> Method | None:
    """The first method `name` in the body of the class `node`."""
    known = facts.lineages.own
    if node not in known:
        methods = [item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]
        known[node] = {method.name: method for method in reversed(methods)}
    return known[node].get(name)


def is_record(facts: Facts, node: ast.ClassDef) -> bool:
    """Whether `node` is a dataclass, a named tuple or a model output of transformers."""
    decorators = {ast.unparse(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] for d in node.decorator_list}
    bases = {b.rpartition(".")[2] for b in ancestry(facts, node) if isinstance(b, str)}
    return "dataclass" in decorators or bool(bases & {"NamedTuple", "ModelOutput", "TypedDict"})


def record_fields(node: ast.ClassDef) -> list[str]:
    """The names of a record's fields, in order."""
    return [s.target.id for s in node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]


def named_fields(node: ast.AST) -> list[str]:
    """The fields of the class that `namedtuple("Point", ["x", "y"])` or `namedtuple("Point", "x y")` makes."""
    given = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return given.value.replace(",", " ").split()
    elements = given.elts if isinstance(given, ast.List | ast.Tuple) else []
    return [e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)]


def role_of_class(facts: Facts, node: ast.ClassDef) -> Role | None:
    """The role of instances of the class `node`, by the library classes it derives from."""
    known = facts.lineages.roles
    if node not in known:
        roles = (_role_of_base(base) for base in ancestry(facts, node) if isinstance(base, str))
        known[node] = next((role for role in roles if role is not None), None)
    return known[node]


def _role_of_base(name: str) -> Role | None:
    if name in catalog.MODEL_BASES or (name.startswith("transformers.") and name.endswith("PreTrainedModel")):
        return Role.MODEL
    role = catalog.role_of(name)
    if role is Role.CRITERION:
        return Role.CRITERION
    if role in {Role.MODEL, Role.LOADER, Role.SAMPLER}:
        return role
    if name.startswith("torch.optim.") and name.endswith(("LRScheduler", "LR")):
        return Role.SCHEDULER
    if name.startswith("torch.optim."):
        return Role.OPTIMIZER
    return None
