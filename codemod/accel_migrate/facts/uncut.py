"""Inputs of a training step that stay whole although the batch made beside them is cut.

A process then pairs its share of the rows with all rows of something else: with words from a generator, say, whose
negatives alone are cut.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts import catalog
from accel_migrate.facts.arguments_of import bound_arguments
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Function, Literal, Made, Role, Spread, Values, locals_of

COUNTERS = {"range", "enumerate", "itertools.count"}


def uncut_input(facts: Facts) -> ast.expr | None:
    """An input of a model or of a loss, beside rows that are cut, which is not known to be rows; None where there is none."""
    for place, cut in facts.cuts.items():
        step = cut.loop or facts.function(place)
        bound = set(_bound_in(step))
        for part in ast.walk(step):
            for node in _inputs(facts, part, bound) if isinstance(part, ast.Call) else _compared(facts, part, bound):
                if _may_be_rows(facts, node):
                    return node
    return None


def _inputs(facts: Facts, call: ast.Call, bound: set[str]) -> list[ast.expr]:
    """What must be rows if other inputs of `call` are: of a model, what is new in each step; of a loss, its two sides."""
    found = [a.value if isinstance(a, ast.Starred) else a for a in call.args] + [k.value for k in call.keywords]
    forward = facts.forwards.get(call)
    if forward is not None and forward.recorded:
        return [node for node in found if bound & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}]
    if not is_loss(facts, call):
        return _compared_inside(facts, call, bound)
    sides = found[:2]
    return sides if any(_is_cut(facts.of(node)) for node in sides) else []


def _compared(facts: Facts, node: ast.AST, bound: set[str]) -> list[ast.expr]:
    """The variable of `bound` that rows are compared with: `prediction - target`, `prediction == target`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        sides = [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.comparators) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
        sides = [node.left, node.comparators[0]]
    else:
        return []
    other = [side for side in sides if not _is_cut(facts.of(side))]
    return [side for side in other if len(other) == 1 and isinstance(side, ast.Name) and side.id in bound]


def _compared_inside(facts: Facts, call: ast.Call, bound: set[str]) -> list[ast.expr]:
    """Arguments new in each step that a function of the program compares with rows it is given beside them."""
    found = []
    for function in (v.node for v in facts.of(call.func) if isinstance(v, Function)):
        arguments = bound_arguments(facts, call, function)
        new = {name: node for name, node in arguments.items() if isinstance(node, ast.Name) and node.id in bound}
        if new and any(_is_cut(facts.of(node)) for node in arguments.values()):
            inside = [side for part in ast.walk(function) for side in _compared(facts, part, set(new))]
            found += [new[side.id] for side in inside if isinstance(side, ast.Name)]
    return found


def _bound_in(step: ast.AST) -> Iterator[str]:
    """Variables that get a new value in each step, its counters aside."""
    counters: set[str] = set()
    for node in ast.walk(step):
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and ast.unparse(node.iter.func) in COUNTERS:
            first = node.target.elts[0] if isinstance(node.target, ast.Tuple) else node.target
            counters |= {first.id} if isinstance(first, ast.Name) else set()
    for node in ast.walk(step):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id not in counters:
            yield node.id


def is_loss(facts: Facts, call: ast.Call) -> bool:
    """Whether `call` computes a loss of the library."""
    name = facts.external.get(call, "")
    return (name.startswith("torch.") and name.rpartition(".")[2] in catalog.REDUCED_LOSSES) or facts.has_role(
        call.func, Role.CRITERION
    )


def _is_cut(values: Values) -> bool:
    return any(v.spread is Spread.SHARD and not v.whole for v in locals_of(values))


def _may_be_rows(facts: Facts, node: ast.expr) -> bool:
    """Whether `node` could be a whole batch: nothing is known of it, or it is known to be one."""
    values = facts.of(node)
    if isinstance(node, ast.Constant) or any(isinstance(v, Literal) for v in values):
        return False
    if locals_of(values):
        return any(v.whole for v in locals_of(values))
    return all(isinstance(v, Made) and v.role is Role.OBJECT for v in values)
