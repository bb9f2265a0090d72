"""A loss that mixes reductions, taken apart into terms each of which has one."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Spread, spread_of

ONE = {Spread.MEAN, Spread.SUM, Spread.RATIO, None}
"""What a term may be; None is the same on every process."""


@dataclass(frozen=True)
class Term:
    """`factor * node`, with a minus where `negative`; the factors are the same on every process."""

    node: ast.expr
    factors: tuple[ast.expr, ...] = ()
    negative: bool = False

    def text(self) -> str:
        """The term as code, without its sign."""
        whole: ast.expr = self.node
        for factor in reversed(self.factors):
            whole = ast.BinOp(factor, ast.Mult(), whole)
        return ast.unparse(whole)


def terms_of(facts: Facts, node: ast.expr) -> list[Term] | None:
    """The terms of which `node` is the sum, through variables of its function; None where they cannot be told apart."""
    found = _terms(facts, node, 0)
    return found if found is not None and len(found) > 1 else None


def _terms(facts: Facts, node: ast.expr, depth: int) -> list[Term] | None:
    spread = spread_of(facts.of(node))
    if spread in ONE:
        return [Term(node)]
    if depth > 8 or spread is not Spread.MIXED:
        return None
    if isinstance(node, ast.Name):
        return _of_variable(facts, node, depth + 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = _terms(facts, node.left, depth + 1), _terms(facts, node.right, depth + 1)
        if left is None or right is None:
            return None
        return left + [replace(t, negative=not t.negative) if isinstance(node.op, ast.Sub) else t for t in right]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for factor, inner in ((node.left, node.right), (node.right, node.left)):
            if spread_of(facts.of(factor)) is None:
                terms = _terms(facts, inner, depth + 1)
                return None if terms is None else [replace(t, factors=(factor, *t.factors)) for t in terms]
    return None


def _of_variable(facts: Facts, name: ast.Name, depth: int) -> list[Term] | None:
    """The terms of the one assignment to `name` before it, and of what its block adds to it afterwards."""
    function = facts.function(name)
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Store)]
    statements = [facts.statement(n) for n in stores]
    plain = [s for s in statements if isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name) and s.lineno < name.lineno]
    added = [s for s in statements if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add)]
    if len(plain) != 1 or len(plain) + len(added) != len(statements):
        return None
    block = facts.block(plain[0])
    if any(s.lineno > name.lineno or not any(s is other for other in block) for s in added):
        return None
    found: list[Term] = []
    for statement in (*plain, *added):
        terms = _terms(facts, statement.value, depth)  # type: ignore[attr-defined]
        if terms is None:
            return None
        found += terms
    return found
