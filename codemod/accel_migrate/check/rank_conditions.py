"""Which conditions hold on some processes only, and which code they keep from the others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from accel_migrate.facts.distributed import ranks_of
from accel_migrate.facts.rank_names import Kind

if TYPE_CHECKING:
    from accel_migrate.check.program import Program

ATTRIBUTES = {"is_main_process", "is_local_main_process", "is_last_process", "process_index", "local_process_index"}
DECORATORS = {"on_main_process", "on_local_main_process", "on_last_process", "on_process", "on_local_process"}
ORDERED = {"main_process_first", "local_main_process_first"}
OTHERS_RANKS = {
    "global_rank", "is_global_zero", "is_rank_zero", "get_data_parallel_rank", "get_tensor_model_parallel_rank", "get_pipeline_model_parallel_rank", "get_global_rank",
    "get_local_rank", "get_rank",
}  # fmt: skip
"""Names by which other libraries (Megatron, Lightning, DeepSpeed) tell a process its place."""
_OF_RANK = {Kind.MAIN, Kind.RANK, Kind.LOCAL_RANK}
_LEAVING = {"sys.exit", "exit", "quit", "os._exit"}


@dataclass(frozen=True, eq=False)
class Guard:
    """Why some code runs on some processes only."""

    node: ast.AST
    """The test, decorator or context manager."""
    text: str
    """How messages call it."""
    branches: tuple[ast.AST, ...] = ()
    """What the other processes run in its place."""


class RankConditions:
    """Questions about conditions on ranks; variables that hold such conditions are followed by name."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.facts = program.facts

    @cached_property
    def _kept(self) -> set[object]:
        """Variables and functions that hold such a condition."""
        found: set[object] = set()
        for _ in range(3):
            before = len(found)
            for key, values in self.program.flow.assigned.items():
                if any(self._tells(value, found) for value in values):
                    found.add(key)
            for _, node in self.facts.nodes(ast.Return):
                value = node.value  # type: ignore[attr-defined]
                if value is not None and self._tells(value, found):
                    found.add(self.facts.function(node))
            if len(found) == before:
                break
        return found

    def _tells(self, value: ast.expr, kept: set[object]) -> bool:
        """Whether `value` is such a condition or a rank, and not something that is only made with one: a path, a seed."""
        if isinstance(value, ast.Attribute | ast.Name | ast.Compare | ast.BoolOp | ast.UnaryOp):
            return self._differs(value, kept)
        return isinstance(value, ast.Call) and self._asks(value, kept)

    def differs(self, node: ast.expr) -> bool:
        """Whether the condition `node` may hold on one process and not on another because of their ranks."""
        return self._differs(node, self._kept)

    def _differs(self, node: ast.expr, kept: set[object]) -> bool:
        if isinstance(node, ast.BoolOp):
            return any(self._differs(value, kept) for value in node.values)
        if isinstance(node, ast.UnaryOp):
            return self._differs(node.operand, kept)
        if isinstance(node, ast.Compare):
            meaning = ranks_of(self.facts).of(node)
            if meaning is not None and meaning.kind not in _OF_RANK:
                return False
            return any(self._differs(operand, kept) for operand in (node.left, *node.comparators))
        if isinstance(node, ast.BinOp):
            return self._differs(node.left, kept) or self._differs(node.right, kept)
        return self._asks(node, kept)

    def _asks(self, node: ast.expr, kept: set[object]) -> bool:
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            return True
        meaning = ranks_of(self.facts).of(node)
        if meaning is not None and meaning.kind in _OF_RANK:
            return True
        if isinstance(node, ast.Call) and node not in self.facts.external:
            return any(callee in kept for callee in self.facts.callees.get(node, ())) or self.program.method(node) in OTHERS_RANKS
        if isinstance(node, ast.Call):
            return self.facts.external[node].rpartition(".")[2] in OTHERS_RANKS
        if isinstance(node, ast.Attribute) and node.attr in OTHERS_RANKS and not self.facts.of(node):
            return True
        return isinstance(node, ast.Name | ast.Attribute) and self.program.flow.key(node) in kept

    # -- guards -------------------------------------------------------------------------------------
    def guards(self, node: ast.AST) -> Iterator[Guard]:
        """What lets only some processes reach `node` within its function."""
        child = node
        for ancestor in self.facts.ancestors(node):
            yield from self._of_ancestor(ancestor, child)
            if isinstance(child, ast.stmt) and not isinstance(ancestor, ast.Module | ast.ClassDef):
                yield from self._left_before(child, ancestor)
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._of_decorators(ancestor)
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return
            child = ancestor
        if isinstance(child, ast.stmt):
            yield from self._left_before(child, None)

    def _of_ancestor(self, ancestor: ast.AST, child: ast.AST) -> Iterator[Guard]:
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test and self.differs(ancestor.test):
            body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
            orelse = ancestor.orelse if isinstance(ancestor.orelse, list) else [ancestor.orelse]
            others = orelse if any(child is s for s in body) else body
            yield Guard(ancestor.test, f"if {self._shown(ancestor.test)}", tuple(others))
        elif isinstance(ancestor, ast.While) and child is not ancestor.test and self.differs(ancestor.test):
            yield Guard(ancestor.test, f"while {self._shown(ancestor.test)}")
        elif isinstance(ancestor, ast.BoolOp) and child in ancestor.values:
            for value in ancestor.values[: ancestor.values.index(child)]:  # type: ignore[arg-type]
                if self.differs(value):
                    yield Guard(value, self._shown(ancestor))
        elif isinstance(ancestor, ast.With) and child in ancestor.body:
            for item in ancestor.items:
                call = item.context_expr
                if isinstance(call, ast.Call) and self.program.accelerator_calls.get(call) in ORDERED:
                    yield Guard(call, f"with {self._shown(call)}")

    def _of_decorators(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Guard]:
        for decorator in function.decorator_list:
            named = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(named, ast.Attribute) and named.attr in DECORATORS:
                yield Guard(decorator, f"@{self._shown(decorator)}")

    def _left_before(self, statement: ast.stmt, parent: ast.AST | None) -> Iterator[Guard]:
        """`if not is_main_process: return` above `statement` in its block."""
        in_loop = isinstance(parent, ast.For | ast.While)
        for other in self.facts.block(statement) if statement in self.facts.parents else ():
            if other is statement:
                return
            if isinstance(other, ast.If) and self.differs(other.test):
                for branch, rest in ((other.body, other.orelse), (other.orelse, other.body)):
                    if (
                        branch
                        and self._leaves(branch[-1], in_loop or self._loop_around(statement))
                        and not (rest and self._leaves(rest[-1], True))
                    ):
                        yield Guard(
                            other.test,
                            f"line {other.lineno}: if {self._shown(other.test)}: {ast.unparse(branch[-1]).partition(chr(10))[0]}",
                            (branch[-1],),
                        )

    def _loop_around(self, statement: ast.stmt) -> bool:
        for ancestor in self.facts.ancestors(statement):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            if isinstance(ancestor, ast.For | ast.While):
                return True
        return False

    def _leaves(self, last: ast.stmt, in_loop: bool) -> bool:
        if isinstance(last, ast.Return) or (in_loop and isinstance(last, ast.Break | ast.Continue)):
            return True
        return (
            isinstance(last, ast.Expr)
            and isinstance(last.value, ast.Call)
            and self.facts.external.get(last.value) in _LEAVING
        )

    def _shown(self, node: ast.AST) -> str:
        from accel_migrate.quoting import quote

        return quote(node)

    def is_guarded(self, node: ast.AST) -> bool:
        """Whether `node`, or every call of its function, is reached by some processes only."""
        return self._is_guarded(node, frozenset())

    def _is_guarded(self, node: ast.AST, seen: frozenset[ast.AST]) -> bool:
        if next(self.guards(node), None) is not None:
            return True
        function = self.facts.function(node)
        calls = [c for c in self.facts.callers.get(function, {}) if self.facts.function(c) is not function and self._runs(c)]  # type: ignore[call-overload]
        if not calls:
            return self._is_handed_over(function)
        return function not in seen and all(self._is_guarded(call, seen | {function}) for call in calls)

    def _runs(self, node: ast.AST) -> bool:
        """Whether the program comes to `node`: a function that nothing calls tells nothing of how others are called."""
        function = self.facts.function(node)
        return isinstance(function, ast.Module | ast.Lambda) or function in self.facts.visited

    def _is_handed_over(self, function: ast.AST) -> bool:
        """Whether an imported function runs, and no call of it is seen: whoever is handed it may call it on one process only."""
        known = isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and function in self.facts.visited
        return known and self.program.source(function) is not self.facts.entry
