"""Decisions by the clock, by memory or by a signal are taken by all processes together.

`if time.time() - start > budget: break` ends the loop of one process a step before that of another, which then waits for it.
The processes agree first: `set_trigger` where one of them says so, `check_trigger` on all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, InsertBefore, Severity
from accel_migrate.facts.diverging import LOOKED_UP, Diverging
from accel_migrate.facts.values import Spread
from accel_migrate.quoting import quote
from accel_migrate.side_effects import is_guarded, runs_models

ID = "rank-dependent-branch"
TITLE = "Let all processes decide alike where clocks and signals steer training"
WHY = "a process that decides alone leaves the others waiting"

EXITS = {"sys.exit", "exit", "quit"}
HYPERPARAMETERS = {"lr", "momentum", "weight_decay", "betas"}
AGREE = (
    "let all decide alike: accelerator.set_trigger() where it holds, then `if accelerator.check_trigger():` on every process; "
    "a number is shared by utils.broadcast_object_list"
)
ROWS = "ask all rows of the batch: y = accelerator.gather_for_metrics(y) before the test, under another name if the step goes on with y"
FLIPPED = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    diverging = Diverging(context.facts)
    for _, node in context.facts.nodes(ast.If, ast.While):
        assert isinstance(node, ast.If | ast.While)
        asks = diverging.differs(node.test) or _looks_up(context, node)
        if asks and _steers(context, node) and not is_guarded(context.facts, node):
            yield from _agree(context, node)
        elif not asks and _asks_rows(context, node.test) and _steers(context, node):
            yield _finding(context, node, "is asked of this process's rows: the processes go different ways", ROWS)
    for _, node in context.facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        if any(_is_hyperparameter(t) for t in node.targets) and diverging.differs(node.value):
            yield _finding(context, node, "sets another value on each process: the replicas part")


def _looks_up(context: Context, node: ast.If | ast.While) -> bool:
    """Whether the test asks the file system, in the middle of training."""
    calls = (n for n in ast.walk(node.test) if isinstance(n, ast.Call))
    return _around(context, node) is not None and any(context.facts.external.get(c, "") in LOOKED_UP for c in calls)


def _asks_rows(context: Context, test: ast.expr) -> bool:
    """Whether the test compares rows of this process's slice: `if y[0] == 1`."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_rows(context, value) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _asks_rows(context, test.operand)
    if not isinstance(test, ast.Compare) or isinstance(test.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
        return False
    return any(v.spread in {Spread.SHARD, Spread.ROW} and not v.batch for v in context.locals(test))


def _around(context: Context, node: ast.AST) -> ast.AST | None:
    """The innermost loop around `node`, in its function, in which models run."""
    for ancestor in context.facts.ancestors(node):
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        if isinstance(ancestor, ast.For | ast.While) and runs_models(context.facts, ancestor):
            return ancestor
    return None


def _steers(context: Context, node: ast.If | ast.While) -> bool:
    """Whether the processes meet, or stop meeting, where the test says so."""
    if isinstance(node, ast.While):
        return runs_models(context.facts, node)
    inside = [n for statement in [*node.body, *node.orelse] for n in ast.walk(statement)]
    if any(isinstance(n, ast.Call) and context.facts.external.get(n) in EXITS for n in inside) or any(isinstance(n, ast.Raise) for n in inside):
        return _around(context, node) is not None
    if any(isinstance(n, ast.Break | ast.Continue) and _leaves(context, n, node) for n in inside):
        return True
    if any(isinstance(n, ast.Return) for n in inside) and (_around(context, node) is not None or _in_step(context, node)):
        return True
    return any(runs_models(context.facts, s) for s in [*node.body, *node.orelse]) or _reduces(context, node)


def _leaves(context: Context, jump: ast.AST, node: ast.If) -> bool:
    """Whether `jump`, inside `node`, ends a round of a loop around it in which models run."""
    loop = next((a for a in context.facts.ancestors(jump) if isinstance(a, ast.For | ast.While)), None)
    return loop is not None and not context.facts.inside(loop, node) and runs_models(context.facts, loop)


def _in_step(context: Context, node: ast.AST) -> bool:
    """Whether the function of `node` is called in a loop in which models run."""
    function = context.facts.function(node)
    if _words_only(function) and not runs_models(context.facts, function):
        return False
    return any(_around(context, call) is not None for call in context.facts.callers.get(function, ()))  # type: ignore[call-overload]


def _words_only(function: ast.AST) -> bool:
    """Whether all that a function returns is text for people, as that of `3725 seconds` is."""
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    texts = [v for v in values if isinstance(v, ast.JoinedStr) or _is_formatted(v) or (isinstance(v, ast.Constant) and isinstance(v.value, str))]
    return bool(values) and len(texts) == len(values)


def _is_formatted(value: ast.AST | None) -> bool:
    """`"{}".format(x)`, `"%d" % x`."""
    text = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "format" else None
    text = value.left if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod) else text
    return isinstance(text, ast.Constant) and isinstance(text.value, str)


def _reduces(context: Context, node: ast.If) -> bool:
    """Whether something inside becomes global, which takes all processes."""
    facts = context.facts
    return any(facts.inside(c.value, s) for c in facts.conversions.values() for s in [*node.body, *node.orelse])


def _agree(context: Context, node: ast.If | ast.While) -> Iterator[Edit | Finding]:
    try:
        accelerator = context.accelerator(node.body[0])
    except Unreachable:
        yield _finding(context, node, "may hold on one process and not on another: they wait for each other")
        return
    source = context.source(node)
    if isinstance(node, ast.While):
        if node.orelse:
            yield _finding(context, node, "may hold on one process and not on another: they wait for each other")
            return
        test, parts = _negated(node.test)
        text = f"if {test}:\n    {accelerator}.set_trigger()\nif {accelerator}.check_trigger():\n    break"
        yield InsertBefore(source=source, rule=ID, why=WHY, node=node.body[0], template=text, parts=parts)
        yield context.replace(ID, node.test, "True", WHY)
        return
    if _is_elif(context, node):
        yield _finding(context, node, "may hold on one process and not on another: they wait for each other")
        return
    yield InsertBefore(source=source, rule=ID, why=WHY, node=node, template=f"if {{test}}:\n    {accelerator}.set_trigger()", parts={"test": Inner(node.test)})
    yield context.replace(ID, node.test, f"{accelerator}.check_trigger()", WHY)


def _negated(test: ast.expr) -> tuple[str, dict[str, ast.AST | Inner]]:
    """The opposite of `test` as a template."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in FLIPPED:
        return f"{{left}} {FLIPPED[type(test.ops[0])]} {{right}}", {"left": test.left, "right": test.comparators[0]}
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return "{test}", {"test": test.operand}
    return "not ({test})", {"test": Inner(test)}


def _is_elif(context: Context, node: ast.If) -> bool:
    parent = context.facts.parents[node]
    return isinstance(parent, ast.If) and parent.orelse == [node]


def _is_hyperparameter(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and target.slice.value in HYPERPARAMETERS


def _finding(context: Context, node: ast.stmt, problem: str, advice: str = AGREE) -> Finding:
    shown = node.test if isinstance(node, ast.If | ast.While) else node
    message = f"`{quote(shown)}` {problem}"
    return Finding(source=context.source(node), node=node, rule=ID, severity=Severity.ERROR, message=message, advice=advice)
