"""Project classes: their bases, their methods, and the role of their instances."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts.values import Role

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Facts


def ancestry(facts: Facts, node: ast.ClassDef) -> Iterator[ast.ClassDef | str]:
    """`node`, then its base classes depth first: nodes of the project, full names of libraries."""
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


def find_method(facts: Facts, node: ast.ClassDef, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The method `name` that instances of `node` have, inherited ones included."""
    for base in ancestry(facts, node):
        if isinstance(base, ast.ClassDef):
            for item in base.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name == name:
                    return item
    return None


def is_record(facts: Facts, node: ast.ClassDef) -> bool:
    """Whether `node` is a dataclass, a named tuple or a model output of transformers."""
    decorators = {ast.unparse(d.func if isinstance(d, ast.Call) else d).rpartition(".")[2] for d in node.decorator_list}
    bases = {b.rpartition(".")[2] for b in ancestry(facts, node) if isinstance(b, str)}
    return "dataclass" in decorators or bool(bases & {"NamedTuple", "ModelOutput", "TypedDict"})


def role_of_class(facts: Facts, node: ast.ClassDef) -> Role | None:
    """The role of instances of the class `node`, by the library classes it derives from."""
    for base in ancestry(facts, node):
        if isinstance(base, ast.ClassDef):
            continue
        role = _role_of_base(base)
        if role is not None:
            return role
    return None


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
