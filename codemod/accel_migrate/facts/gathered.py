"""What follows a gather: the code that sees the global batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts.arguments_of import bound_arguments
from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.values import locals_of


def later(facts: Facts, gather: Gather) -> Iterator[ast.expr]:
    """Expressions that are evaluated after `gather`, in the same loop or function."""
    border = gather.statement
    begin = (border.lineno, border.col_offset) if gather.hoisted else (border.end_lineno, border.end_col_offset)
    moved = {id(n) for call in gather.hoisted for n in ast.walk(call)}
    for statement in _around(facts, gather).body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr) and (node.lineno, node.col_offset) >= begin and id(node) not in moved:
                yield node


def is_hosted(facts: Facts, gather: Gather, name: str) -> bool:
    """Whether the loop (or, outside of any, the function) never moves `name` (or what it is unpacked from) to the device."""
    around = next((a for a in facts.ancestors(gather.statement) if isinstance(a, ast.For)), gather.scope.node)
    stores = [n for n in ast.walk(around) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
    found = [v for store in stores for v in locals_of(facts.of(store))]
    return bool(found) and all(v.host for v in found)


def lists_of_records(facts: Facts, gather: Gather) -> list[str]:
    """Variables that are read as lists with one dict for each sample: `for t in targets: t["boxes"]`.

    Only where a part of the batch is such a list: an output alone may have one dict for each of its levels.
    """
    around = _around(facts, gather)
    given = {n.id for n in ast.walk(around.target) if isinstance(n, ast.Name)} if isinstance(around, ast.For) else set()
    found = [name for name in gather.names if name not in gather.blocks and _is_list_of_records(facts, gather, name)]
    return found if given & set(found) else []


def _is_list_of_records(facts: Facts, gather: Gather, name: str) -> bool:
    reads = (n for n in later(facts, gather) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load))
    return any(map(_is_record, (item for read in reads for place in _places(facts, read) for item in _items_of(facts, place))))


def _places(facts: Facts, read: ast.Name) -> Iterator[ast.Name]:
    """`read`, and where a function of the program that is given it reads its parameter."""
    yield read
    call = facts.parents[read]
    for function in facts.callees.get(call, ()) if isinstance(call, ast.Call) else ():
        names = {parameter for parameter, value in bound_arguments(facts, call, function).items() if value is read}  # type: ignore[arg-type]
        yield from (n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load))


def _items_of(facts: Facts, iterated: ast.expr) -> Iterator[ast.AST]:
    """What reads the entries of `iterated`, over which a loop runs, alone or in a `zip` or `enumerate`: the parents of the reads."""
    node, place = iterated, None
    call = facts.parents[node]
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in {"zip", "enumerate"} and node in call.args:
        node, place = call, call.args.index(node) + (call.func.id == "enumerate")
    loop = facts.parents[node]
    if not isinstance(loop, ast.For | ast.comprehension) or loop.iter is not node:
        return
    target = loop.target.elts[place] if place is not None and isinstance(loop.target, ast.Tuple) and place < len(loop.target.elts) else loop.target
    around = loop if isinstance(loop, ast.For) else facts.parents[loop]
    if isinstance(target, ast.Name):
        yield from (facts.parents[n] for n in ast.walk(around) if isinstance(n, ast.Name) and n.id == target.id and isinstance(n.ctx, ast.Load))


def _is_record(read: ast.AST) -> bool:
    """Whether a value is read as a dict there."""
    if isinstance(read, ast.Subscript):
        return isinstance(read.slice, ast.Constant) and isinstance(read.slice.value, str)
    return isinstance(read, ast.Attribute) and read.attr in {"items", "keys", "values"}


def _around(facts: Facts, gather: Gather) -> ast.For | ast.FunctionDef | ast.Module:
    function = facts.function(gather.statement)
    return next((a for a in facts.ancestors(gather.statement) if isinstance(a, ast.For)), function)  # type: ignore[return-value]
