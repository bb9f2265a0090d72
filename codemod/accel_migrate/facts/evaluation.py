"""Where evaluation loops gather: right after the last forward pass, so that every metric line below stays as it is.

A loop over a loader in which no backward pass runs is an evaluation loop. Everything which its later statements read of
the batch and of the model's outputs is gathered in one place; what is a mean already (a loss that the model returned)
or leaves the tensors elsewhere is reduced where it is read.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import replace

from accel_migrate.facts.blocks import RAGGED
from accel_migrate.facts.facts import Facts, Gather, Loop
from accel_migrate.facts.left_behind import left_behind
from accel_migrate.facts.numbered import numbers_samples
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.shaping import shapes
from accel_migrate.facts.values import Spread, locals_of

Position = tuple[int, int]
Around = ast.For | ast.While | ast.FunctionDef

def plan_gathers(facts: Facts) -> dict[ast.stmt, Gather]:
    """One `Gather` for each evaluation loop that computes metrics from its model's outputs."""
    plans: dict[ast.stmt, Gather] = {}
    for loop in facts.loops.values():
        if not loop.trains and isinstance(loop.node, ast.For):
            plan = _plan(facts, loop, loop.node)
            if plan is not None:
                plans[plan.statement] = plan
    return plans


def _plan(facts: Facts, loop: Loop, node: ast.For) -> Gather | None:
    calls = [call for call in _calls(node) if _is_forward(facts, call, loop)]
    return gather_after(facts, loop.scope, node, calls) if calls else None


def gather_after(facts: Facts, scope: Scope, node: Around, calls: list[ast.Call], inside: bool = False) -> Gather | None:
    """Gathers what `node` reads after the last of the forward passes `calls`; None where there is no place for it.

    `inside` says to gather in the midst of a statement that makes a number of the outputs: `loss = criterion(model(x), y)`.
    """
    statement = facts.statement(max(calls, key=end))
    if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign) and not _heads(facts, statement):
        return None
    if _assigned_names(statement) and not (inside and not _holds_rows(facts, statement)):
        statement = _unpacked(facts, statement)
        targets = _assigned_names(statement)
        shards = [t for t in targets if Spread.SHARD in spreads(facts.of(t))]
        live = _live(facts, node, statement, after=end(statement), sizes=inside)
        names = _ordered([t.id for t in shards if t.id in live], live)
        paths = _paths(facts, node, statement, end(statement))
        if not shards and not any(_root(path) in {t.id for t in targets} for path in paths):
            return None
        return _checked(facts, node, Gather(statement, scope, tuple(names), paths), inside) if names or paths else None
    return _hoist(facts, scope, node, statement, [c for c in calls if facts.statement(c) is statement], inside)


def _checked(facts: Facts, node: Around, gather: Gather, loss: bool) -> Gather | None:
    """`gather` with what it must know of blocks and sizes; None where rows would not be put together in the order of the batch."""
    after = start(gather.statement) if gather.hoisted else end(gather.statement)
    read = [n for n in _reads(facts, node, after, {id(n) for call in gather.hoisted for n in ast.walk(call)}) if isinstance(n, ast.Name | ast.Subscript | ast.Attribute)]
    kept = {name: [v for n in read if ast.unparse(n) == name for v in locals_of(facts.of(n)) if v.spread is Spread.SHARD] for name in (*gather.names, *gather.paths)}
    kept |= {ast.unparse(call): [v for v in locals_of(facts.of(call)) if v.spread is Spread.SHARD] for call in gather.hoisted}
    every = [v for found in kept.values() for v in found]
    if any(v.axis != 0 or v.blocks == RAGGED for v in every) or any(v.blocks for name, found in kept.items() if name not in gather.names for v in found):
        return None
    if any(v.joined for v in every) and numbers_samples(facts) is not None:
        facts.numbered.add(gather.statement)
        return None
    if any(_is_distribution(facts, n) for n in read if isinstance(n, ast.Name) and n.id in gather.names):
        return None
    if loss and any(_picks_rows(facts, n) for n in read if isinstance(n, ast.Name) and n.id in gather.names):
        return None  # the numbers of this process's rows are none of the rows of the whole batch
    left = tuple(left_behind(facts, gather, read))
    if loss and left:
        return None
    return replace(gather, blocks=frozenset(n for n in gather.names if any(v.blocks for v in kept[n])), sizes=_sizes(facts, node, read, after, loss), left=left)


def _is_distribution(facts: Facts, name: ast.Name) -> bool:
    """Whether `name` is used as one of torch.distributions, which holds tensors and is none."""
    parent = facts.parents[name]
    if isinstance(parent, ast.Attribute):
        return parent.attr in {"loc", "scale", "rsample", "log_prob", "probs", "entropy", "base_dist", "concentration"}
    return isinstance(parent, ast.Call) and ast.unparse(parent.func).rpartition(".")[2] == "kl_divergence"


def _picks_rows(facts: Facts, name: ast.Name) -> bool:
    """Whether `name` says by number which rows of a batch are taken: `y[order]`, and not `y[mask]` or `class_weights[y]`."""
    parent = facts.parents[name]
    if isinstance(parent, ast.Tuple):
        parent = facts.parents[parent]
    if isinstance(parent, ast.Subscript):
        return parent.value is not name and Spread.SHARD in spreads(facts.of(parent.value)) and not any(v.truth for v in locals_of(facts.of(name)))
    taking = isinstance(parent, ast.Call) and ast.unparse(parent.func).rpartition(".")[2] in {"index_select", "take_along_dim", "take"}
    return taking and Spread.SHARD in spreads(facts.of(parent))


def _sizes(facts: Facts, node: Around, read: list[ast.expr], after: Position, loss: bool) -> tuple[str, ...]:
    """Variables bound before `after` to the number of local rows, by which the code that follows shapes or cuts tensors."""
    found: dict[str, None] = {}
    for name in read:
        if isinstance(name, ast.Name) and spreads(facts.of(name)) == {Spread.COUNT} and (loss or shapes(facts, name)):
            bound = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name.id and isinstance(n.ctx, ast.Store)]
            if bound and all(start(n) < after for n in bound):
                found[name.id] = None
    return tuple(found)


def _holds_rows(facts: Facts, statement: ast.stmt) -> bool:
    return any(v.batch or v.output or v.spread is Spread.SHARD for target in _assigned_names(statement) for v in locals_of(facts.of(target)))


def _heads(facts: Facts, statement: ast.stmt) -> bool:
    """Whether `statement` is a loop or a condition in whose head a model runs: the gather can go above it."""
    parent = facts.parents[statement]
    return isinstance(statement, ast.For) or (isinstance(statement, ast.If) and not (isinstance(parent, ast.If) and parent.orelse == [statement]))


def _unpacked(facts: Facts, statement: ast.stmt) -> ast.stmt:
    """The last of the statements right after a forward pass that only take its output apart: `logits = output.logits`."""
    known = {t.id for t in _assigned_names(statement)}
    block = facts.block(statement)
    for following in block[next(i for i, s in enumerate(block) if s is statement) + 1 :]:
        targets = _assigned_names(following)
        if not targets or not isinstance(following, ast.Assign) or not _takes_apart(following.value, known):
            break
        known |= {t.id for t in targets}
        statement = following
    return statement


def _takes_apart(value: ast.expr, known: set[str]) -> bool:
    if isinstance(value, ast.Tuple):
        return all(_takes_apart(element, known) for element in value.elts)
    if isinstance(value, ast.Subscript) and not _is_key(value.slice):
        return False
    if isinstance(value, ast.Attribute | ast.Subscript):
        return _takes_apart(value.value, known) or (isinstance(value.value, ast.Name) and value.value.id in known)
    return False


def _root(path: str) -> str:
    return path.partition("[")[0].partition(".")[0]


def _hoist(facts: Facts, scope: Scope, node: Around, statement: ast.stmt, calls: list[ast.Call], sizes: bool) -> Gather | None:
    outermost = [c for c in calls if not any(c is not other and facts.inside(c, other) for other in calls)]
    if any(Spread.SHARD not in spreads(facts.of(c)) or _is_conditional(facts, c, statement) for c in outermost):
        return None
    if isinstance(statement, ast.Expr) and statement.value in outermost:
        return None  # nobody looks at the output
    if any(_joins_own_rows(facts, c) for c in outermost):
        return None
    taken = {n.id for n in ast.walk(scope.node) if isinstance(n, ast.Name)}
    hoisted: dict[ast.expr, str] = {}
    for number, call in enumerate(outermost, 1):
        hoisted[call] = _fresh("output" if len(outermost) == 1 else f"output_{number}", taken)
    inputs = {id(n) for call in outermost for n in ast.walk(call)}
    live = _live(facts, node, statement, after=start(statement), without=inputs, sizes=sizes)
    paths = _paths(facts, node, statement, start(statement), inputs)
    return _checked(facts, node, Gather(statement, scope, tuple(_ordered([], live)), paths, hoisted), sizes)


def _joins_own_rows(facts: Facts, call: ast.Call) -> bool:
    """Whether the output goes into a list that holds rows of this process already: `shown = [x]`, then `shown.append(model(x))`."""
    filled = facts.parents[call]
    if not isinstance(filled, ast.Call) or not isinstance(filled.func, ast.Attribute) or filled.func.attr != "append":
        return False
    name = ast.unparse(filled.func.value)
    function = facts.function(call)
    made = [n.value for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.value, ast.List) and name in map(ast.unparse, n.targets)]
    return any(Spread.SHARD in spreads(facts.of(element)) for shown in made for element in shown.elts)


def _fresh(base: str, taken: set[str]) -> str:
    """A new name: `base`, `all_base` or a numbered one."""
    if base in taken or hasattr(builtins, base):
        base = f"all_{base}"
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken.add(name)
    return name


def _is_conditional(facts: Facts, node: ast.AST, statement: ast.stmt) -> bool:
    for ancestor in facts.ancestors(node):
        if ancestor is statement:
            return False
        if isinstance(ancestor, ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp | ast.IfExp | ast.BoolOp):
            return True
    return False


def _is_forward(facts: Facts, call: ast.Call, loop: Loop) -> bool:
    forward = facts.forwards.get(call)
    if forward is not None:
        return loop.node in forward.contexts and not _gives_figure(facts, call)
    reachable = _reachable(facts, call)
    return any(loop.node in f.contexts and f.scope.node in reachable for f in facts.forwards.values())


def _gives_figure(facts: Facts, call: ast.Call) -> bool:
    """Whether a module only makes a number of rows, as a loss does: it is to be given those of the global batch."""
    return bool(spreads(facts.of(call))) and Spread.SHARD not in spreads(facts.of(call))


def _reachable(facts: Facts, call: ast.Call) -> set[ast.AST]:
    seen: set[ast.AST] = set()
    pending: list[ast.AST] = list(facts.callees.get(call, ()))
    while pending:
        function = pending.pop()
        if function not in seen:
            seen.add(function)
            pending.extend(f for c in ast.walk(function) if isinstance(c, ast.Call) for f in facts.callees.get(c, ()))
    return seen


def _calls(node: Around) -> Iterator[ast.Call]:
    for statement in node.body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.Call):
                yield inner


def _assigned_names(statement: ast.stmt) -> list[ast.Name]:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    target = statement.targets[0]
    elements = target.elts if isinstance(target, ast.Tuple) else [target]
    return [e for e in elements if isinstance(e, ast.Name)] if all(isinstance(e, ast.Name) for e in elements) else []


def _reads(facts: Facts, loop: Around, after: Position, without: set[int]) -> Iterator[ast.expr]:
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Load) and start(node) >= after and id(node) not in without:
                yield node


def _given(around: Around) -> set[str]:
    """The names that each round of a loop, or each call of a function, gives new values."""
    if isinstance(around, ast.For):
        return {n.id for n in ast.walk(around.target) if isinstance(n, ast.Name)}
    return {a.arg for a in ast.walk(around.args) if isinstance(a, ast.arg)} if isinstance(around, ast.FunctionDef) else set()


def _live(
    facts: Facts, loop: Around, statement: ast.stmt, after: Position, without: frozenset[int] | set[int] = frozenset(), sizes: bool = False
) -> list[str]:
    """Names bound in the loop up to `statement` whose rows (or, with `sizes`, only their number) are read from `after` on, in order."""
    bound = _given(loop)
    for earlier in loop.body:
        bound |= {n.id for n in ast.walk(earlier) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and start(n) < end(statement)}
    found: list[str] = []
    for node in _reads(facts, loop, after, set(without)):
        if not isinstance(node, ast.Name) or node.id not in bound or node.id in found:
            continue
        parent = facts.parents.get(node)
        whole = not _is_part(facts, parent)
        if Spread.SHARD in spreads(facts.of(node)) and whole and (sizes or not _only_measured(facts, node)):
            found.append(node.id)
    return found


def _paths(facts: Facts, loop: Around, statement: ast.stmt, after: Position, without: frozenset[int] | set[int] = frozenset()) -> dict[str, str]:
    """`batch["labels"]` read from `after` on -> the variable that takes its global rows."""
    taken = {n.id for n in ast.walk((facts.scopes.get(loop) or facts.scope(loop)).node) if isinstance(n, ast.Name)}
    found: dict[str, str] = {}
    for node in _reads(facts, loop, after, set(without)):
        if _is_part(facts, node):
            text = ast.unparse(node)
            if text not in found and Spread.SHARD in spreads(facts.of(node)) and not _only_measured(facts, node):
                key = node.attr if isinstance(node, ast.Attribute) else node.slice.value  # type: ignore[attr-defined]
                found[text] = _fresh(key if isinstance(key, str) and key.isidentifier() else f"{node.value.id}_{key}", taken)
    return found


TENSOR_ATTRIBUTES = {"T", "data", "device", "dtype", "grad", "mT", "ndim", "requires_grad", "shape"}


def _is_part(facts: Facts, node: ast.AST | None) -> bool:
    """Whether `node` is `batch["labels"]` or `output.logits`: a part, by name, of something with rows."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Name) and _is_key(node.slice) and not _picks_row(facts, node)
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.attr in TENSOR_ATTRIBUTES:
        return False
    called = facts.parents.get(node)
    return not (isinstance(called, ast.Call) and called.func is node)


def _picks_row(facts: Facts, node: ast.Subscript) -> bool:
    """Whether a number picks a row of a tensor: the first is settled once the rows are gathered."""
    rows = locals_of(facts.of(node.value))
    return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) and bool(rows) and not any(v.batch or v.output for v in rows)


def _only_measured(facts: Facts, node: ast.expr) -> bool:
    """Whether this read only asks for the number of rows."""
    parent = facts.parents.get(node)
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "len":
        return True
    return isinstance(parent, ast.Attribute) and parent.attr in {"size", "shape", "numel", "nelement"}


def _is_key(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | int)


def _ordered(first: list[str], rest: list[str]) -> list[str]:
    return list(dict.fromkeys([*first, *rest]))


def start(node: ast.AST) -> Position:
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def end(node: ast.AST) -> Position:
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
