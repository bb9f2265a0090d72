"""What the analysis finds does not hang on the addresses of objects or on the seed of string hashes."""

from __future__ import annotations

import ast
import random

from accel_migrate.facts.joins import MAX_VALUES, joined, limited
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import Literal, Local, Made, Ref, Role, Spread, locals_of
from accel_migrate.tree_index import TreeIndex


def _calls(number: int) -> list[ast.AST]:
    return list(TreeIndex(ast.parse("\n".join(["f()"] * number)), "__main__").of_kind(ast.Call))


def test_the_index_lists_nodes_as_ast_walk_does() -> None:
    tree = ast.parse("def f(a, *b):\n    return [x for x in a if x] + b\n")
    index = TreeIndex(tree, "m")
    assert index.nodes == list(ast.walk(tree))
    assert index.of_kind(ast.Name) == [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    assert all(index.parents[child] is node for node in ast.walk(tree) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Load))


def test_of_too_many_values_the_first_in_the_program_are_kept() -> None:
    sites = _calls(2 * MAX_VALUES)
    made = [Made(Role.OBJECT, site) for site in sites]
    for seed in range(5):
        random.Random(seed).shuffle(sites)
        values = frozenset(Made(Role.OBJECT, site) for site in sites)
        assert limited(values) == frozenset(made[:MAX_VALUES])


def test_values_come_in_one_order() -> None:
    sites = _calls(3)
    values = [Literal("a"), Literal(1), Local(Spread.MEAN), Local(Spread.SHARD), *(Made(Role.MODEL, s) for s in sites), Ref("a.b")]
    for seed in range(5):
        mixed = values[:]
        random.Random(seed).shuffle(mixed)
        assert list(in_order(frozenset(mixed))) == list(in_order(values))
        assert locals_of(frozenset(mixed)) == [Local(Spread.MEAN), Local(Spread.SHARD)]


def test_variables_keep_their_order_where_branches_meet() -> None:
    names = [f"*args {i}" for i in range(20)]
    env = {name: frozenset({Literal(name)}) for name in names}
    assert list(joined(env, dict(env))) == names
