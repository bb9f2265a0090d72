"""Hand-written distributed training: is there any, does it always run, and where does it start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.off import Off
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.ranks import INIT, Ranks
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Function

STARTERS = {
    "torch.multiprocessing.spawn", "torch.multiprocessing.start_processes", "torch.multiprocessing.Process",
    "multiprocessing.Process", "torch.multiprocessing.spawn.spawn",
}  # fmt: skip


class When(str, Enum):
    """When a process group is made."""

    ALWAYS = "always"
    LAUNCHED = "where a launcher started several processes"
    ASKED = "where a flag asks for it"


Test = tuple[ast.expr, bool]
"""A condition, and what it must be."""


@lru_cache(maxsize=4)
def ranks_of(facts: Facts) -> Ranks:
    """The ranks of a program whose facts are complete."""
    return Ranks.of_program(facts)


def process_group_calls(facts: Facts) -> list[ast.Call]:
    return [call for call, name in facts.external.items() if name in INIT]


def is_distributed(facts: Facts) -> bool:
    """Whether the program trains on a process group whenever a launcher starts several processes."""
    return any(when(facts, call) is not When.ASKED for call in process_group_calls(facts))


def when(facts: Facts, call: ast.Call) -> When:
    """When `call`, which makes a process group or starts processes, runs."""
    off = Off(facts, ranks_of(facts))
    tests = [(test, wanted) for test, wanted in conditions(facts, call) if off.truth(test) is not wanted]
    if not tests:
        return When.ALWAYS
    if _is_required(facts, tests):
        return When.ALWAYS
    launched = all(_is_launched(facts, test, wanted) for test, wanted in tests)
    return When.LAUNCHED if launched else When.ASKED


def _is_required(facts: Facts, tests: list[Test]) -> bool:
    """Whether the program refuses to train where `tests` do not hold: `if args.distributed: ... else: raise NotImplementedError`."""
    asked = {(ast.unparse(test), wanted) for test, wanted in tests}
    for _, node in facts.nodes(ast.If):
        assert isinstance(node, ast.If)
        refusing = [holds for holds, block in ((True, node.body), (False, node.orelse)) if _raises(block)]
        negated = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
        text = ast.unparse(node.test.operand if negated else node.test)  # type: ignore[attr-defined]
        if len(refusing) == 1 and (text, refusing[0] is negated) in asked:
            return True
    return False


def _raises(block: list[ast.stmt]) -> bool:
    """Whether `block` ends with an exception whichever way it takes."""
    last = block[-1] if block else None
    return isinstance(last, ast.Raise) or (isinstance(last, ast.If) and _raises(last.body) and _raises(last.orelse))


def _is_launched(facts: Facts, test: ast.expr, wanted: bool) -> bool:
    meaning = ranks_of(facts).of(test)
    if meaning is not None:
        return meaning.kind is Kind.AVAILABLE or (meaning.kind is Kind.FLAG and meaning.negated is not wanted)
    parts = test.values if isinstance(test, ast.BoolOp) and wanted else []
    if parts and isinstance(test.op, ast.Or):  # type: ignore[attr-defined]
        return any(_is_launched(facts, part, True) for part in parts)
    return bool(parts) and all(_is_launched(facts, part, True) or facts.external.get(part) == "torch.cuda.is_available" for part in parts)  # type: ignore[arg-type]


def conditions(facts: Facts, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> list[Test]:
    """The tests under which `node` runs: those around it, and around the calls of its function where it has callers."""
    function = facts.function(node)
    own = list(_around(facts, node))
    callers = [c for c in facts.callers.get(function, {}) if facts.function(c) not in seen and c is not node]  # type: ignore[call-overload]
    if function in seen or not callers:
        return own
    outer = [conditions(facts, call, seen | {function}) for call in callers]
    return [*own, *min(outer, key=len)]


def _around(facts: Facts, node: ast.AST) -> Iterator[Test]:
    child = node
    for ancestor in facts.ancestors(node):
        if isinstance(ancestor, ast.If) and child is not ancestor.test and "__name__" not in ast.unparse(ancestor.test):
            yield ancestor.test, child not in ancestor.orelse
        if isinstance(child, ast.stmt) and not isinstance(ancestor, ast.Module):
            yield from _passed_by(facts, child)
        if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        child = ancestor


def _passed_by(facts: Facts, statement: ast.stmt) -> Iterator[Test]:
    """Statements of the same block above `statement` that return under a condition."""
    for other in facts.block(statement):
        if other is statement:
            return
        if isinstance(other, ast.If):
            if _leaves(other.body):
                yield other.test, False
            elif (tests := _tests_of_chain(other)) is not None:
                yield (tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests)), True


def _leaves(block: list[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], ast.Return)


def _tests_of_chain(node: ast.If) -> list[ast.expr] | None:
    """The tests of `if a: ... elif b: ... else: return`, one of which holds further down; None for other `if`s."""
    tests = [node.test]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        tests.append(node.test)
    return tests if _leaves(node.orelse) else None


def spawns(facts: Facts) -> ast.Call | None:
    """The call with which the program always starts its own training processes."""
    return next((call for call in training_starts(facts) if when(facts, call) is not When.ASKED), None)


def training_starts(facts: Facts) -> Iterator[ast.Call]:
    """Calls that start processes which train."""
    training = {facts.function(b.call) for b in facts.backwards.values()}
    for call, name in facts.external.items():
        if name in STARTERS:
            handed = [v.node for a in (*call.args, *(k.value for k in call.keywords)) for v in facts.of(a) if isinstance(v, Function)]
            if any(f in training or _reaches(facts, f, set(facts.backwards), set()) for f in handed):
                yield call


def start_of(facts: Facts, scope: Scope) -> ast.stmt | None:
    """The first statement in `scope` (or in the main guard there) that makes the process group, by itself or through what it calls."""
    return _first_start(facts, scope.node.body, set(process_group_calls(facts)))  # type: ignore[attr-defined]


def _first_start(facts: Facts, block: list[ast.stmt], wanted: set[ast.Call]) -> ast.stmt | None:
    for statement in block:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef) or not _reaches(facts, statement, wanted, set()):
            continue
        guards = isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
        return _first_start(facts, statement.body, wanted) if guards else statement
    return None


def _reaches(facts: Facts, node: ast.AST, wanted: set[ast.Call], seen: set[ast.AST]) -> bool:
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        if inner in wanted:
            return True
        for callee in facts.callees.get(inner, ()):
            if callee not in seen:
                seen.add(callee)
                if _reaches(facts, callee, wanted, seen):
                    return True
    return False
