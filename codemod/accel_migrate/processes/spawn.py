"""`mp.spawn(worker, nprocs=n, args=(n, args))` becomes `worker(args)`: a launcher starts the processes.

The worker loses the parameters for its rank and for the number of processes; where it reads them, it gets them from the
launcher, as a script under torchrun does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from accel_migrate.edits import (
    AddImport,
    DeleteStatement,
    Edit,
    Finding,
    InsertBefore,
    RemoveArgument,
    RemoveParameter,
    ReplaceStatement,
    UnwrapStatement,
)
from accel_migrate.facts.distributed import process_group_calls, ranks_of, training_starts
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.values import Function, Role
from accel_migrate.processes.paragraphs import delete

ID = "hand-made-ddp"
WHY = "accel launch starts the processes"
START_METHODS = {"torch.multiprocessing.set_start_method", "multiprocessing.set_start_method"}


@dataclass(frozen=True)
class Start:
    """A call that starts processes."""

    call: ast.Call
    statement: ast.stmt
    """What it stands for: the call itself, or the loop that starts one process after the other."""
    worker: ast.FunctionDef
    given: list[ast.expr]
    """The arguments after the rank."""
    count: ast.expr | None
    """The number of processes."""


def called_directly(facts: Facts) -> list[Edit]:
    """The edits of one start of processes; none where there is none, or its arguments are out of sight."""
    for call in training_starts(facts):
        start = start_of_processes(facts, call)
        if start is not None and _can_be_called(facts, start):
            unshared = [e for e in without_sharing(facts) if not isinstance(e, Finding)]
            return [*_called(facts, start), *_launched(facts, start), *unshared]
    return []


def start_of_processes(facts: Facts, call: ast.Call) -> Start | None:
    """What `call` starts, where that can be seen."""
    return _spawned(facts, call) or _looped(facts, call)


def _spawned(facts: Facts, call: ast.Call) -> Start | None:
    keywords = {k.arg: k.value for k in call.keywords}
    positional = dict(zip(("fn", "args", "nprocs"), call.args, strict=False))
    given = keywords.get("args", positional.get("args", ast.Tuple([], ast.Load())))
    worker = _function(facts, keywords.get("fn", positional.get("fn")))
    statement = facts.statement(call)
    if worker is None or not isinstance(given, ast.Tuple) or not isinstance(statement, ast.Expr | ast.Assign) or statement.value is not call:
        return None
    return Start(call, statement, worker, given.elts, keywords.get("nprocs", positional.get("nprocs")))


def _looped(facts: Facts, call: ast.Call) -> Start | None:
    """`for rank in range(n): process = Process(target=worker, args=(rank, n)); process.start()`."""
    keywords = {k.arg: k.value for k in call.keywords}
    worker, given = _function(facts, keywords.get("target")), keywords.get("args")
    loop = next((a for a in facts.ancestors(call) if isinstance(a, ast.For)), None)
    if worker is None or loop is None or not isinstance(given, ast.Tuple) or not isinstance(loop.target, ast.Name) or not given.elts:
        return None
    ranged = isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range" and len(loop.iter.args) == 1
    if not ranged or ast.unparse(given.elts[0]) != loop.target.id or not _only_starts(loop):
        return None
    return Start(call, loop, worker, given.elts[1:], loop.iter.args[0])  # type: ignore[attr-defined]


def _only_starts(loop: ast.For) -> bool:
    """Whether the loop makes processes, starts and keeps them, and does nothing else."""
    return all(isinstance(s, ast.Assign) or ast.unparse(s).endswith((".start()", ".append(" + ast.unparse(s).rpartition("(")[2])) for s in loop.body)


def _function(facts: Facts, node: ast.expr | None) -> ast.FunctionDef | None:
    found = {v.node for v in facts.of(node) if isinstance(v, Function)} if node is not None else set()
    function = found.pop() if len(found) == 1 else None
    return function if isinstance(function, ast.FunctionDef) else None


def _can_be_called(facts: Facts, start: Start) -> bool:
    """Whether every use of the worker is seen, and its parameters are plain."""
    arguments = start.worker.args
    plain = not (arguments.vararg or arguments.kwarg or arguments.posonlyargs) and len(arguments.args) > len(start.given)
    direct = [c.func for c in facts.callers.get(start.worker, {})]
    uses = [n for _, n in facts.nodes(ast.Name) if n.id == start.worker.name and isinstance(n.ctx, ast.Load)]  # type: ignore[attr-defined]
    others = [n for n in uses if n not in direct and not facts.inside(n, start.call)]
    return plain and not others and facts.scopes[start.worker].enclosing_class is None and not any(isinstance(a, ast.Starred) for a in start.given)


# -- the call -----------------------------------------------------------------------------------------------
def _called(facts: Facts, start: Start) -> Iterator[Edit]:
    source = facts.source(start.call)
    alternative = _alternative(facts, start)
    if alternative is not None:
        yield UnwrapStatement(source=source, rule=ID, why=WHY, node=alternative, branch="orelse" if start.statement in alternative.body else "body")
    else:
        kept = [g for g in start.given if not _is_count(start, g)]
        parts: dict[str, ast.AST] = {f"a{i}": value for i, value in enumerate(kept)}
        template = f"{start.worker.name}({', '.join(f'{{{k}}}' for k in parts)})"
        yield ReplaceStatement(source=source, rule=ID, why=WHY, node=start.statement, template=template, parts=parts)
    yield from _without_joins(facts, start)
    for call in facts.callers.get(start.worker, {}):
        for place, argument in enumerate(call.args):
            if place == 0 or (place <= len(start.given) and _is_count(start, start.given[place - 1])):
                yield RemoveArgument(source=facts.source(call), rule=ID, why=WHY, node=call, argument=argument)


def _alternative(facts: Facts, start: Start) -> ast.If | None:
    """The `if` that starts processes in one branch and calls the worker itself in the other."""
    parent = facts.parents[start.statement]
    calls = facts.callers.get(start.worker, {})
    if not isinstance(parent, ast.If):
        return None
    other = parent.orelse if start.statement in parent.body else parent.body
    return parent if any(facts.statement(call) in other for call in calls) else None


def _is_count(start: Start, value: ast.expr) -> bool:
    return start.count is not None and ast.unparse(value) == ast.unparse(start.count)


def _without_joins(facts: Facts, start: Start) -> Iterator[Edit]:
    """Waiting for the processes goes, and so does the choice how they start."""
    if isinstance(start.statement, ast.For):
        block = facts.block(start.statement)
        for statement in block:
            if isinstance(statement, ast.For) and statement is not start.statement and all(ast.unparse(s).endswith(".join()") for s in statement.body):
                yield DeleteStatement(source=facts.source(statement), rule=ID, why=WHY, node=statement)
    for call, name in facts.external.items():
        if name in START_METHODS and isinstance(facts.parents[call], ast.Expr):
            yield delete(facts, facts.statement(call), ID, WHY)


# -- the worker ---------------------------------------------------------------------------------------------
def _launched(facts: Facts, start: Start) -> Iterator[Edit]:
    worker, source, ranks = start.worker, facts.source(start.worker), ranks_of(facts)
    scope = facts.scopes[worker]
    gone = [worker.args.args[0], *(a for a, given in zip(worker.args.args[1:], start.given, strict=False) if _is_count(start, given))]
    lines = []
    for parameter in gone:
        yield RemoveParameter(source=source, rule=ID, why=WHY, node=worker, parameter=parameter)
        given = ranks.given.get((scope, parameter.arg))
        if parameter is gone[0]:
            variable = "RANK" if given is not None and given.kind is Kind.RANK else "LOCAL_RANK"
        else:
            variable = "WORLD_SIZE" if given is not None and given.kind is Kind.WORLD else "LOCAL_WORLD_SIZE"
        if any(isinstance(n, ast.Name) and n.id == parameter.arg and isinstance(n.ctx, ast.Load) for n in ast.walk(worker)):
            lines.append(f"{parameter.arg} = int({_asked(facts, variable)})")
    if lines:
        yield AddImport(source=source, rule=ID, why=WHY, module="os")
        yield InsertBefore(source=source, rule=ID, why=WHY, node=_first(worker), template="\n".join(lines))


def _asked(facts: Facts, variable: str) -> str:
    """The launcher's variable; processes that never met before the migration have no launcher when there is one of them."""
    if process_group_calls(facts):
        return f'os.environ["{variable}"]'
    return f'os.environ.get("{variable}", {int(variable.endswith("SIZE"))})'


# -- one model in shared memory -----------------------------------------------------------------------------
def without_sharing(facts: Facts) -> Iterator[Edit | Finding]:
    """`model.share_memory()` of processes that train one model without waiting for each other."""
    if process_group_calls(facts):
        return
    for call, (base, name) in facts.methods.items():
        statement = facts.statement(call)
        if name != "share_memory" or not any(facts.role(v) is Role.MODEL for v in base) or not isinstance(statement, ast.Expr):
            continue
        yield DeleteStatement(source=facts.source(call), rule=ID, why="every process has a model of its own", node=statement)
        yield Finding(
            source=facts.source(call), node=call, rule=ID,
            message="each of the processes trained this shared model on all data, without waiting for the others; now all take the same steps together, each on its part of a batch: one pass over the data for all of them",
            advice="look at the number of epochs and the learning rate again: N processes took N times as many steps",
        )  # fmt: skip


def _first(function: ast.FunctionDef) -> ast.stmt:
    """The first statement that does something, below the docstring and `global` lines."""
    for statement in function.body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not isinstance(statement, ast.Global | ast.Nonlocal):
            return statement
    return function.body[-1]
