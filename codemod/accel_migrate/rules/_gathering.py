"""Edits that gather the rows of all processes behind a forward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, InsertAfter, InsertBefore, Severity
from accel_migrate.facts.facts import Gather
from accel_migrate.facts.gathered import is_hosted, later, lists_of_records
from accel_migrate.facts.shaping import shaping_counts
from accel_migrate.rules.backward import out_of_reach

JOINS = {"cat", "concat", "stack", "concatenate", "vstack", "hstack"}


def gather_at(context: Context, gather: Gather, rule: str, why: str) -> Iterator[Edit | Finding]:
    """Gathers there, and names what is read afterwards by its new names."""
    method = "gather_for_metrics" if gather.backward is None else "gather_with_grad"
    source = context.source(gather.statement)
    parts: dict[str, ast.AST | Inner] = {}
    names: list[str] = []
    values: list[str] = []
    for i, (call, name) in enumerate(gather.hoisted.items()):
        names.append(name)
        values.append(f"{{h{i}}}")
        parts[f"h{i}"] = Inner(call)
        yield context.replace(rule, call, name, why)
    listed = lists_of_records(context.facts, gather)
    plain = [name for name in gather.names if name not in gather.blocks and name not in listed]
    names += [*plain, *gather.paths.values()]
    values += [*plain, *(_as_written(context, gather, path) for path in gather.paths)]
    yield from (_left(context, gather, name) for name in gather.left)
    if gather.blocks and not context.dialect.exact:
        yield _unordered(context, gather)
        return
    right = values[0] if len(values) == 1 else f"({', '.join(values)})"
    try:
        call_text, imports = context.say_or_import(f"@accelerator@.{method}", gather.statement, rule)
        object_text, more = context.say_or_import("@accelerator@.gather_for_metrics", gather.statement, rule) if listed else ("", [])
        imports += more
        sizes = [context.say_or_import(context.dialect.global_len.replace("{x}", name), gather.statement, rule) for name in gather.sizes]
    except Unreachable:
        yield out_of_reach(context, gather.statement)
        return
    lines = [f"{', '.join(names)} = {call_text}({right})"] if names else []
    lines += [f"{name} = {object_text}({name}, use_gather_object=True)" for name in listed]
    lines += [f"{name} = {call_text}({name}, in_blocks=True)" for name in gather.names if name in gather.blocks]
    lines += [f"{name} = {text}" for name, (text, _) in zip(gather.sizes, sizes, strict=True)]
    yield from {edit.names: edit for edit in [*imports, *(e for _, more in sizes for e in more)]}.values()
    insert = InsertBefore if gather.hoisted else InsertAfter
    yield insert(source=source, rule=rule, why=why, node=gather.statement, template="\n".join(lines), parts=parts)
    yield from _rename_paths(context, gather, rule, why)
    yield from _count_whole(context, gather, rule)
    yield from _back_to_host(context, gather, rule)


def _count_whole(context: Context, gather: Gather, rule: str) -> Iterator[Edit]:
    """`range(len(x))` and `out.view(x.size(0), -1)`: where `x` itself is not gathered, the number is the global batch's all the same."""
    if gather.backward is not None:
        return
    for number, rows in shaping_counts(context.facts, gather):
        text, imports = context.say_or_import(context.dialect.global_len, number, rule)
        yield from imports
        yield context.replace(rule, number, text, "it counts the rows that were gathered", x=rows if context.dialect.exact else number)


def _unordered(context: Context, gather: Gather) -> Finding:
    return Finding(
        source=context.source(gather.statement), node=gather.statement, rule="row-mixing", severity=Severity.WARNING,
        message=f"the rows of `{', '.join(sorted(gather.blocks))}` are several batches one after another: gathered, those of each process follow each other",
        advice="gather each part by itself before they are joined",
    )  # fmt: skip


def _left(context: Context, gather: Gather, name: str) -> Finding:
    return Finding(
        source=context.source(gather.statement), node=gather.statement, rule="row-mixing", severity=Severity.ERROR,
        message=f"`{name}` comes out of the model for this process's rows, and does not go with the gathered ones",
        advice="let the model return it as a tensor with one entry for each row, in the order of the batch, or compute it from the gathered rows",
    )  # fmt: skip


def _as_written(context: Context, gather: Gather, path: str) -> str:
    """`path` with the quotes that the script uses."""
    for node in later(context.facts, gather):
        if isinstance(node, ast.Subscript | ast.Attribute) and ast.unparse(node) == path:
            return ast.get_source_segment(context.source(node).text, node) or path
    return path


def _rename_paths(context: Context, gather: Gather, rule: str, why: str) -> Iterator[Edit]:
    for node in later(context.facts, gather):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load) and ast.unparse(node) in gather.paths:
            name = gather.paths[ast.unparse(node)]
            hosted = _root_is_hosted(context, gather, node) and _needs_host(context, node)
            yield context.replace(rule, node, f"{name}.cpu()" if hosted else name, why)


def _back_to_host(context: Context, gather: Gather, rule: str) -> Iterator[Edit]:
    """What the script left on the host is on the device now; it goes back where the host's copy was used."""
    if context.home.device is None:
        return
    hosted = {n for n in gather.names if is_hosted(context.facts, gather, n)}
    for node in later(context.facts, gather):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in hosted and _needs_host(context, node):
            yield context.replace(rule, node, f"{node.id}.cpu()", "the prepared loader puts batches on the device")


def _root_is_hosted(context: Context, gather: Gather, path: ast.expr) -> bool:
    root = path
    while isinstance(root, ast.Subscript | ast.Attribute):
        root = root.value
    if context.home.device is None or not isinstance(root, ast.Name):
        return False
    return is_hosted(context.facts, gather, root.id)


def _needs_host(context: Context, node: ast.expr) -> bool:
    """Whether `node` meets an array or a tensor on the host, or is kept in a list with such."""
    parents = context.facts.parents
    parent = parents[node]
    while isinstance(parent, ast.Attribute):
        call = parents[parent]
        if parent.attr in {"numpy", "__array__"}:
            return True
        if not isinstance(call, ast.Call) or call.func is not parent or parent.attr in {"cpu", "to", "cuda"}:
            return False
        node, parent = call, parents[call]
    if isinstance(parent, ast.Compare | ast.BinOp):
        others = [n for n in ast.walk(parent) if isinstance(n, ast.Attribute) and n.attr in {"cpu", "numpy"}]
        return bool(others)
    if isinstance(parent, ast.Call) and node in parent.args:
        return _is_joined_later(context, parent) or context.facts.external.get(parent, "").startswith(("numpy.", "sklearn."))
    return False


def _is_joined_later(context: Context, call: ast.Call) -> bool:
    """`rows.append(x)` of a list that `torch.cat(rows)` makes one tensor."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "append":
        return False
    text = ast.unparse(call.func.value)
    joins = (n for n in ast.walk(context.facts.function(call)) if isinstance(n, ast.Call) and ast.unparse(n.func).rpartition(".")[2] in JOINS)
    return any(ast.unparse(argument) == text for join in joins for argument in join.args)
