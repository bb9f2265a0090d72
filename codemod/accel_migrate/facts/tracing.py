"""What is written down of a run of a function, and how it is followed in later passes instead of running the body."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from accel_migrate.facts.effects import note_binding, note_trainable
from accel_migrate.facts.joins import limited
from accel_migrate.facts.scopes import FunctionNode
from accel_migrate.facts.traces import (
    BOUND,
    CALLED,
    HELD,
    OF,
    READ,
    WRITTEN,
    Call,
    Done,
    Step,
    Trace,
    Traces,
    again_done,
)
from accel_migrate.facts.values import UNKNOWN, Instance, Values

if TYPE_CHECKING:
    from accel_migrate.facts.facts import Facts
    from accel_migrate.facts.machine import Machine

_Answer = TypeVar("_Answer")


class Tracing:
    """Part of `Machine`."""

    facts: Facts

    def __init__(self) -> None:
        self.trace: Trace | None = None
        """That of the running body, if it is a function's."""
        self.traces: Traces | None = None
        self.planned: set[ast.AST] = set()
        """Functions that hold statements which this fixpoint reads in a way of their own."""

    def _trace(self, trace: Trace | None) -> None:
        self.trace = self.facts.trace = trace

    def _by_trace(
        self: Machine,  # type: ignore[misc]
        key: Step,
        node: FunctionNode,
        env: dict[str, Values],
        receiver: Instance | None,
        plain: bool,
    ) -> Values:
        """What a trace of a run under `key` returns, if one holds; else the body's result."""
        if self.traces is None or node in self.planned or node in self.traces.never:
            return self._by_body(node, env, receiver, plain)
        done = Done()
        for trace in self.traces.known.get(key, ()):
            if self._followed(trace, done):
                return trace.result
        trace = Trace(done)
        self._trace(trace)
        try:
            trace.result = self._by_body(node, env, receiver, plain)
        finally:
            self._trace(None)
        trace.close()
        trace.home = self
        if not trace.spoiled and node not in self.traces.never:
            self.traces.keep(key, trace)
        return trace.result

    def _followed(self: Machine, trace: Trace, done: Done) -> bool:  # type: ignore[misc]
        """Whether the running body does the same as in `trace`. Adds what it has done to `done`."""
        known, steps, number = self.facts.values, iter(trace.steps), self.slots.number
        bound = called = 0
        for step in steps:
            if step.__class__ is not tuple:
                values = next(steps)
                old = known.get(step)
                if old is None:
                    known[step] = values
                elif old is not values and not values <= old:
                    known[step] = limited(old | values)
                continue
            kind = step[0]
            if kind is READ:
                slot = step[1]
                slot.asked = number
                if slot.values != step[2]:
                    return False
            elif kind is OF:
                if known.get(step[1], UNKNOWN) != step[2]:
                    return False
            elif kind is BOUND:
                slot, values = step[1], step[4]
                if slot.passed != number or not values <= slot.said or not values <= slot.values:
                    self.write_cell(step[2], step[3], values)
            elif kind is WRITTEN:
                slot, values = step[1], step[4]
                if slot.passed != number or not values <= slot.said or not values <= slot.values:
                    self.write_heap(step[2], step[3], values)
            elif kind is HELD:
                if self.held_by(step[1]) != step[2]:
                    return False
            elif kind is CALLED:
                called += 1
                call: Call = step[1]
                if called > len(done.calls):
                    done.calls.append((call.arguments, call.again(self)))
                if done.calls[called - 1] != (call.arguments, call.result):
                    return False
            elif kind is again_done and step[1] is note_binding:
                bound += 1
                if bound > len(done.targets):
                    done.targets.append(step[2][1])
                    note_binding(self, *step[2])
                elif done.targets[bound - 1] is not step[2][1]:
                    return False
            elif not kind(self, step):
                return False
        if trace.home is not self:
            trace.home = self
            for effect, arguments in trace.lasting:
                effect(self, *arguments)
        return True

    def spoil(self) -> None:
        """The running body reads or does something that no trace holds: it runs in every pass."""
        if self.trace is not None:
            self.trace.spoiled = True

    def train_tensors(self) -> None:
        """From here on the program is known to make tensors that gradients reach."""
        if self.trace is None:
            self.trains_tensors = True
        elif note_trainable not in self.trace.answers:
            self.trace.answers[note_trainable] = None
            self.do(note_trainable)

    def keep(self: Machine, node: ast.expr, call: ast.Call | None) -> None:  # type: ignore[misc]
        """Notes that `call` puts the record which holds `node` into a container that outlives the batch."""
        self.kept[node] = call
        if self.traces is not None:
            self.traces.never.add(innermost(self.facts, node))

    def do(self, effect: Callable[..., None], *arguments: object) -> None:
        """`effect(machine, *arguments)`, which traces do again."""
        effect(self, *arguments)
        if self.trace is not None:
            self.trace.steps.append((again_done, effect, arguments))

    def tell(self, effect: Callable[..., None], *arguments: object) -> None:
        """`effect(machine, *arguments)`, which stays from pass to pass."""
        effect(self, *arguments)
        if self.trace is not None:
            self.trace.lasting[effect, arguments] = None

    def knows(self, question: Callable[..., _Answer], argument: object, answer: _Answer) -> None:
        """What the running body itself has done makes that the answer of `question`: no trace need ask."""
        if self.trace is not None:
            self.trace.answers[question, argument] = answer

    def ask(self, question: Callable[..., _Answer], *arguments: object) -> _Answer:
        """The answer of `question(machine, *arguments)`, which traces ask again."""
        trace = self.trace
        if trace is None:
            return question(self, *arguments)
        self._trace(None)
        answer = question(self, *arguments)
        self._trace(trace)
        trace.asked(question, arguments, answer)
        return answer


def innermost(facts: Facts, node: ast.AST) -> ast.AST:
    """The function, lambda or module in whose frame `node` is evaluated."""
    return next(a for a in facts.ancestors(node) if isinstance(a, FunctionNode | ast.Module))
