"""Why a program without a loader has no batch that its processes could share."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.recurrent import time_first_layer
from accel_migrate.facts.values import Role
from accel_migrate.quoting import quote

LOOPS = (ast.For, ast.AsyncFor, ast.While)


def environment(facts: Facts) -> ast.Call | None:
    """The call that makes an environment to act in: what its answers are, and when they end, is each process's own affair."""
    return _first(call for call, name in facts.external.items() if name.startswith(catalog.ENVIRONMENTS))


def why_no_batch(facts: Facts) -> str:
    """What the program trains on instead, where, and what to write; empty where nothing is known."""
    for node, what in _kinds(facts):
        if node is not None:
            return f"{facts.source(node).where(node.lineno)}: {what}"  # type: ignore[attr-defined]
    return ""


def _kinds(facts: Facts) -> Iterator[tuple[ast.AST | None, str]]:
    yield environment(facts), "it learns from an environment, in which each process would act by itself; share out the environments, or the replayed rows, by hand"
    yield _old_iterator(facts), "the iterators of the old torchtext are no loaders: put the examples into a DataLoader with a collate_fn, then migrate it"
    yield _inner_gradient(facts), (
        "it takes gradient steps inside of another (torch.autograd.grad on weights of its own): tasks, not rows, are what the processes could share; "
        "let a DataLoader yield the tasks, then migrate it"
    )
    yield time_first_layer(facts), (
        "this layer takes time as the first dimension, so that the rows of a batch lie in the second, and batches made by hand are cut along the first only; "
        "with batch_first=True and batches of that shape, or with a DataLoader, it can be migrated"
    )
    yield _made_once(facts), "the model gets the same data in every step: as one batch of a DataLoader (batch_size=len(data)) its rows can be shared out, if no row looks at others (a graph)"
    batch = _made_in_the_step(facts)
    if batch is not None:
        text = quote(batch)
        yield batch, f"it is not known whether `{text}` makes one batch, with a row for each sample; let a DataLoader make it, or call accelerator.shard_batch on it by hand"


def _old_iterator(facts: Facts) -> ast.Call | None:
    return _first(call for call, name in facts.external.items() if name.startswith("torchtext.") and any(part in name for part in catalog.OLD_ITERATORS))


def _inner_gradient(facts: Facts) -> ast.Call | None:
    """`torch.autograd.grad(loss, weights)` whose result becomes new weights, in a program whose steps are `backward()` on what they give."""
    for call, name in facts.external.items():
        inputs = [a for a in call.args[1:2] if not facts.is_local(a)]
        if name == "torch.autograd.grad" and inputs and any(word in ast.unparse(inputs[0]) for word in ("weight", "param")):
            return call
    return None


def _blind(facts: Facts) -> ast.Call | None:
    """The first call of a model that trains on something of which nothing is known: beside a backward pass, if there is one."""
    functions = {facts.function(call) for call in facts.backwards}
    beside = [call for call in facts.blind_forwards if facts.function(call) in functions]
    direct = [call for call in beside if not isinstance(call.func, ast.Attribute) or facts.has_role(call.func, Role.MODEL)]
    return _first(direct or beside or facts.blind_forwards)


def _made_once(facts: Facts) -> ast.Call | None:
    """The call of a model in a loop all of whose inputs are bound outside of it."""
    call = _blind(facts)
    loop = None if call is None else next((a for a in facts.ancestors(call) if isinstance(a, (*LOOPS, ast.FunctionDef))), None)
    if call is None or loop is None:
        return None
    bound = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} | {a.arg for a in ast.walk(loop) if isinstance(a, ast.arg)}
    inputs = {n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)}
    return call if inputs and not inputs & bound else None


def _made_in_the_step(facts: Facts) -> ast.stmt | None:
    """The statement that binds what the model is called with, in the function of that call."""
    node = facts.unfollowed or _blind(facts)
    if node is None:
        return None
    function = facts.function(node)
    names = {n.id for part in _inputs(node) for n in ast.walk(part) if isinstance(n, ast.Name)}
    stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in names and n.lineno <= node.lineno]
    anew = [n for n in stores if not _moves(facts.statement(n), n.id)]
    last = max(anew, key=lambda n: (n.lineno, n.col_offset), default=None)
    return facts.statement(last or node)


def _moves(statement: ast.stmt, name: str) -> bool:
    """`x = x.to(device)` makes no batch."""
    value = getattr(statement, "value", None)
    return value is not None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(value))


def _inputs(node: ast.expr) -> list[ast.expr]:
    """The first argument of a call of a model; anything else itself."""
    return [*node.args, *(k.value for k in node.keywords)][:1] if isinstance(node, ast.Call) else [node]


def _first(calls: Iterable[ast.Call]) -> ast.Call | None:
    return min(calls, key=lambda call: (call.lineno, call.col_offset), default=None)
