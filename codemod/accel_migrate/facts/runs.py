"""How functions run: once in a pass for the same arguments, and by their traces while what they read stays the same."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

from accel_migrate.facts.classes import role_of_class
from accel_migrate.facts.scopes import FunctionNode, Scope
from accel_migrate.facts.traces import CALLED, Call, Step
from accel_migrate.facts.tracing import Tracing
from accel_migrate.facts.values import Box, ClassValue, Function, Instance, Local, Made, Role, Values

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Facts, Loop
    from accel_migrate.facts.machine import Machine

MAX_DEPTH = 24
MAX_RUNS = 64
"""How often a function is run in a pass for arguments that are nothing of a training."""


class Runs(Tracing):
    """Part of `Machine`."""

    facts: Facts
    loader_loops: list[Loop]

    def __init__(self) -> None:
        super().__init__()
        self.no_grad = 0
        self.stack: list[FunctionNode] = []
        self.loops: list[ast.stmt] = []
        self.runs: Counter[FunctionNode] = Counter()
        """How often each function was run in this pass and got nothing of a training."""
        self.unreached = False
        """Whether what runs is a function of an imported module which nothing in the program reaches, or called by one."""
        self.memo: dict[Step, Values] = {}
        """Runs of this pass."""
        self.outer_no_grad = 0
        """`no_grad` when the running body was entered."""
        self.given_rows = False
        """Whether the running function was called with values that differ between processes."""
        self.trains_tensors = False
        """Whether the program makes tensors that gradients reach, other than by modules."""
        self.looping = 0
        """How many loops are running in the functions that called the running one."""
        self.for_rows = 0
        """How many of them run once for each row of a batch: what they call looks at one row."""
        self.row_loops = 0
        """How many such loops are running in the running function itself."""
        self._generators: dict[FunctionNode, bool] = {}

    def run_function(
        self: Machine,  # type: ignore[misc]
        node: FunctionNode,
        scope: Scope,
        env: dict[str, Values],
        receiver: Instance | None,
    ) -> Values:
        """What `node` returns when its parameters have the values of `env`."""
        trace = self.trace
        if trace is None:
            return self._run(node, scope, env, receiver)
        arguments = node, scope, env, receiver
        result = trace.done.called(arguments) if trace.done.calls else None
        if result is None:
            self._trace(None)
            result = self._run(*arguments)
            self._trace(trace)
        trace.steps.append((CALLED, Call(self, arguments, self.no_grad - self.outer_no_grad, result)))
        return result

    def _run(
        self: Machine,  # type: ignore[misc]
        node: FunctionNode,
        scope: Scope,
        env: dict[str, Values],
        receiver: Instance | None,
    ) -> Values:
        self.facts.visited.add(node)
        if node in self.stack or len(self.stack) >= MAX_DEPTH:
            return _fitting(self.read_heap(node, "return"), env)
        given = self.evaluator._deep(frozenset().union(*env.values()))
        plain = self._is_plain(given - {receiver})
        if plain and self.runs[node] >= (1 if self.unreached else MAX_RUNS):
            return self.read_heap(node, "plain return")
        loop = self.loader_loops[-1] if self.loader_loops else None
        key = (
            node,
            frozenset(env.items()),
            receiver,
            self.no_grad > 0,
            loop,
            self.looping + len(self.loops) > 0,
            self.for_rows + self.row_loops > 0,
        )
        if key in self.memo:
            return self.memo[key]
        self.runs[node] += plain
        rows = any(isinstance(v, Local) and not v.whole for v in given)
        self.memo[key] = result = self._entered(node, env, receiver, plain, rows, key)
        return result

    def _entered(
        self: Machine,  # type: ignore[misc]
        node: FunctionNode,
        env: dict[str, Values],
        receiver: Instance | None,
        plain: bool,
        rows: bool,
        key: Step,
    ) -> Values:  # type: ignore[misc]
        """The result of a run, by its body or by a trace; what belongs to the caller is put aside meanwhile."""
        partials = tuple(self.evaluator.calls._partials)
        loop: Loop | None = key[4]
        key = (*key[:4], loop.node if loop is not None else None, *key[5:], plain, rows, self.unreached, partials)
        self.stack.append(node)
        loops, self.loops = self.loops, []
        self.looping += len(loops)
        row_loops, self.row_loops = self.row_loops, 0
        self.for_rows += row_loops
        given_rows, self.given_rows = self.given_rows, rows
        outer, self.outer_no_grad = self.outer_no_grad, self.no_grad
        try:
            return self._by_trace(key, node, env, receiver, plain)
        finally:
            self.outer_no_grad = outer
            self.stack.pop()
            self.loops = loops
            self.looping -= len(loops)
            self.for_rows -= row_loops
            self.row_loops = row_loops
            self.given_rows = given_rows

    def _by_body(
        self: Machine,  # type: ignore[misc]
        node: FunctionNode,
        env: dict[str, Values],
        receiver: Instance | None,
        plain: bool,
    ) -> Values:
        from accel_migrate.facts.machine import Frame

        frame = Frame(self.facts.scopes[node], dict(env), receiver=receiver)
        for name, values in env.items():
            self.write_cell(frame.scope, name, values)
        guarded = not isinstance(node, ast.Lambda) and any(
            self.evaluator.disables_grad(d, frame) for d in node.decorator_list
        )
        self.no_grad += guarded
        try:
            if isinstance(node, ast.Lambda):
                frame.returned = self.evaluator.eval(node.body, frame)
            else:
                self.block(node.body, frame)
        finally:
            self.no_grad -= guarded
        if self._is_generator(node):
            frame.returned |= self.generator(node)
        self.write_heap(node, "return", frame.returned)
        if plain:
            self.write_heap(node, "plain return", frame.returned)
        return frame.returned

    def _is_plain(self: Machine, given: Values) -> bool:  # type: ignore[misc]
        """Whether a function that is `given` this gets nothing of a training: numbers, names, parts of the model that calls it.

        They tell its runs apart; where nothing in the program reaches the caller, or for a function that a hundred
        places call, what it does with the first of them is enough. (But a registry is to know all that it is given.)
        """
        if self.loader_loops or self.given_rows:
            return False
        caller = self.facts.scopes[self.stack[-1]].enclosing_class if self.stack else None
        parts = {Role.MODEL} if caller is not None and role_of_class(self.facts, caller.node) is Role.MODEL else set()  # type: ignore[arg-type]
        kinds = Local if self.unreached else Local | Function | ClassValue
        return not any(isinstance(v, kinds) or self.facts.role(v) not in {None, Role.OBJECT, *parts} for v in given)

    def _is_generator(self, node: FunctionNode) -> bool:
        if node not in self._generators:
            self._generators[node] = is_generator(node)
        return self._generators[node]

    def generator(self: Machine, node: FunctionNode) -> Values:  # type: ignore[misc]
        """What a call of the generator function `node` returns: an iterator, over batches where it loops over a loader."""
        iterator = Made(Role.OBJECT, node, "iter:generator")
        self.write_heap(iterator, "yields", self.read_heap(node, "yield"))
        self.write_heap(iterator, "sources", self.read_heap(node, "sources"))
        return frozenset({iterator})


def _fitting(returned: Values, env: dict[str, Values]) -> Values:
    """What a recursive call returns of all that the function returned so far: rows only for rows."""
    if any(isinstance(v, Local | Box) for values in env.values() for v in values):
        return returned
    return frozenset(v for v in returned if not isinstance(v, Local))


def is_generator(node: FunctionNode) -> bool:
    """Whether `node` itself yields (and not only a function inside it)."""
    pending: list[ast.AST] = [] if isinstance(node, ast.Lambda) else list(node.body)
    while pending:
        current = pending.pop()
        if isinstance(current, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(current))
    return False
