"""Objects that write: they exist on the main process only, or are switched off on the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.facts import catalog, trackers
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import Role


def makers(facts: Facts) -> Iterator[ast.Call]:
    """Calls that make a writer and are used for it: one that only stands there is a statement that writes."""
    for call, name in facts.external.items():
        alone = isinstance(facts.parents[call], ast.Expr | ast.Attribute)
        if name in catalog.WRITERS and (not alone or (name in trackers.SETTINGS and keeps_settings(facts, name))):
            yield call


def answers(facts: Facts) -> Iterator[ast.Call]:
    """Calls of a writer's methods whose result is kept: `window = viz.line(...)`."""
    for call, (base, _) in facts.methods.items():
        parent = facts.parents[call]
        if any(facts.role(v) is Role.WRITER for v in base) and isinstance(parent, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            yield call


def is_asked(facts: Facts, maker: ast.Call, statements: list[ast.stmt]) -> bool:
    """Whether each process asks the writer that `maker` makes for something: `os.path.join(writer.log_dir, "last.pt")`."""
    for _, node in facts.nodes(ast.Attribute):
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load) or not any(getattr(v, "site", None) is maker for v in facts.of(node.value)):
            continue
        alone = any(facts.inside(node, s) for s in statements) or any(isinstance(a, ast.If) and "main_process" in ast.unparse(a.test) for a in facts.ancestors(node))
        call = facts.parents[node]
        told = isinstance(call, ast.Call) and call.func is node and isinstance(facts.parents[call], ast.Expr | ast.Assign)
        if not alone and not told:
            return True
    return False


def handed_back(call: ast.Call) -> ast.expr | None:
    """The argument that `call` notes down and returns: `settings = task.connect(settings)`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return call.args[0] if name in trackers.HANDED_BACK and call.args else None


def keeps_settings(facts: Facts, start: str) -> bool:
    """Whether the script reads its settings from the record that `start` begins: then every process needs one."""
    wanted = trackers.SETTINGS[start]
    for node in facts.once(_configs_read):
        begun = any(facts.role(v) is Role.WRITER and v.detail == start for v in facts.of(node.value))  # type: ignore[union-attr]
        if begun or any(getattr(v, "name", "") == wanted for v in facts.of(node)):
            return True
    return False


def _configs_read(facts: Facts) -> list[ast.Attribute]:
    """Where some `config` is read."""
    read = (n for _, n in facts.nodes(ast.Attribute) if isinstance(n, ast.Attribute) and n.attr == "config" and isinstance(n.ctx, ast.Load))
    return [node for node in read if not _is_changed(facts, node)]


def _is_changed(facts: Facts, node: ast.Attribute) -> bool:
    """`wandb.config.update(args)` reads nothing."""
    method = facts.parents[node]
    call = facts.parents[method]
    return isinstance(method, ast.Attribute) and method.attr == "update" and isinstance(call, ast.Call) and call.func is method
