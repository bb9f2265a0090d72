"""Inputs of a training step that stay whole although the batch made beside them is cut.

A process then pairs its share of the rows with all rows of something else: with words from a generator, say, whose
negatives alone are cut.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Literal, Made, Role, Spread, Values, locals_of

COUNTERS = {"range", "enumerate", "itertools.count"}


def uncut_input(facts: Facts) -> ast.expr | None:
    """An input of a model or of a loss, beside rows that are cut, which is not known to be rows; None where there is none."""
    for place, cut in facts.cuts.items():
        step = cut.loop or facts.function(place)
        bound = set(_bound_in(step))
        for call in ast.walk(step):
            for node in _inputs(facts, call, bound) if isinstance(call, ast.Call) else ():
                if _may_be_rows(facts, node):
                    return node
    return None


def _inputs(facts: Facts, call: ast.Call, bound: set[str]) -> list[ast.expr]:
    """What must be rows if other inputs of `call` are: of a model, what is new in each step; of a loss, its two sides."""
    found = [a.value if isinstance(a, ast.Starred) else a for a in call.args] + [k.value for k in call.keywords]
    forward = facts.forwards.get(call)
    if forward is not None and forward.recorded:
        return [node for node in found if bound & {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}]
    sides = found[:2] if is_loss(facts, call) else []
    return sides if any(_is_cut(facts.of(node)) for node in sides) else []


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
    return (name.startswith("torch.") and name.rpartition(".")[2] in catalog.REDUCED_LOSSES) or facts.has_role(call.func, Role.CRITERION)


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
