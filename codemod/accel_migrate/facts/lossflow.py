"""What the losses are made of: variables and attributes from which a backward pass can start, through assignments."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.liveness import outlives

Place = tuple[object, str]
"""The function (None for attributes, which are seen from everywhere) and the text of a variable or attribute."""
CUTS = {"detach", "item", "tolist", "numpy", "argmax", "argmin", "sign"}
"""Methods behind which no gradient flows."""


def sources_of_losses(facts: Facts) -> set[Place]:
    """Everything of which some loss is made."""
    assigned: dict[str, list[tuple[ast.stmt, ast.expr]]] = defaultdict(list)
    for _, node in facts.nodes(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For):
        for target, value in _pairs(node):
            for part in _parts(target):
                assigned[ast.unparse(part)].append((node, value))  # type: ignore[arg-type]
    pending = [part for b in facts.backwards.values() for part in _parts(b.loss)]
    seen: set[ast.expr] = set()
    found: set[Place] = set()
    while pending:
        read = pending.pop()
        if read in seen:
            continue
        seen.add(read)
        found.add(place(facts, read))
        for statement, value in assigned[ast.unparse(read)]:
            if not _is_cut(value) and _reaches(facts, statement, read):
                pending.extend(_parts(value))
    return found


def place(facts: Facts, node: ast.expr) -> Place:
    """What stands for the variable or attribute `node`."""
    return (facts.function(node) if isinstance(node, ast.Name) else None), ast.unparse(node)


def _reaches(facts: Facts, statement: ast.stmt, read: ast.expr) -> bool:
    """Whether what `statement` assigns can be what `read` reads."""
    if not isinstance(read, ast.Name):
        return True
    scope = facts.scope(read)
    if scope.owner(read.id) is not facts.scope(statement).owner(read.id):
        return False
    if facts.scope(statement) is not scope or statement.lineno <= read.lineno:
        return True
    around = [a for a in facts.ancestors(statement) if isinstance(a, ast.For | ast.While) and facts.inside(read, a)]
    return any(outlives(facts, read.id, loop) for loop in around)


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and what they are assigned, element by element where both are tuples."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore[attr-defined]
    value = node.iter if isinstance(node, ast.For) else node.value  # type: ignore[attr-defined]
    for target in targets if value is not None else ():
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
        else:
            yield target, value


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    return (n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute))


def _is_cut(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in CUTS
