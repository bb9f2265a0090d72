"""What a run of a function read, wrote and called, to go through again in a later pass instead of its body.

A body does the same again as long as all that it reads is the same. So its trace is followed step by step: what it wrote
is written, what it read is compared, what it called is called. Where something reads differently, the body itself runs
from its beginning; writing again what the steps before have written changes nothing.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from accel_migrate.facts.slots import Slots
from accel_migrate.facts.values import Values

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Machine
    from accel_migrate.facts.scopes import FunctionNode, Scope
    from accel_migrate.facts.values import Instance

MOST_TRACES = 4
"""How many traces are kept of one function with the same arguments: passes that know less come again after a fresh start."""
MOST_STEPS = 5_000_000
"""How many steps all traces have together: some 600 MB."""

Arguments = tuple["FunctionNode", "Scope", "dict[str, Values]", "Instance | None"]
"""A function, the scope that holds it, its parameters and the object whose method it is."""

Step = tuple[Any, ...]
"""A function that does the step again, given the machine and the step, and what it needs. It returns whether all is as before."""


READ, HELD, WRITTEN, BOUND = "read", "held", "written", "bound"
"""What begins a step of the store: what stood in a slot, all that an owner held, what was written to the heap and to a variable."""
OF, CALLED = "of", "called"
"""What begins a step that read the values of an expression, and a `Call`."""


class Call:
    """A call of a function of the project in a trace, and what was around it in the calling body."""

    __slots__ = ("arguments", "guarded", "loops", "partials", "result", "rows")

    def __init__(self, machine: Machine, arguments: Arguments, guarded: int, result: Values) -> None:
        self.arguments = arguments
        self.loops = tuple(machine.loops)
        self.rows = machine.row_loops
        self.guarded = guarded
        """How many blocks of the calling body that switch gradients off it stands in."""
        self.partials = tuple(machine.evaluator.calls._partials)
        self.result = result

    def again(self, machine: Machine) -> Values:
        """What it returns now."""
        calls = machine.evaluator.calls
        loops, rows, partials = machine.loops, machine.row_loops, calls._partials
        machine.loops, machine.row_loops, calls._partials = list(self.loops), self.rows, list(self.partials)
        machine.no_grad += self.guarded
        try:
            return machine.run_function(*self.arguments)
        finally:
            machine.no_grad -= self.guarded
            machine.loops, machine.row_loops, calls._partials = loops, rows, partials


class Done:
    """What following older traces of the running body has done, in order, before one of them turned out to be another run."""

    def __init__(self) -> None:
        self.targets: list[ast.expr] = []
        """Of the bindings that have been noted."""
        self.calls: list[tuple[Arguments, Values]] = []
        """With the results that they have now."""

    def has_bound(self, target: ast.expr) -> bool:
        """Whether the next binding, that of `target`, is one of those noted."""
        if self.targets and self.targets.pop(0) is target:
            return True
        self.targets.clear()
        return False

    def called(self, arguments: Arguments) -> Values | None:
        """What the next call, with `arguments`, has returned."""
        before, result = self.calls.pop(0)
        if before == arguments:
            return result
        self.calls.clear()
        return None


class Trace:
    """One run: its steps in their order. The values of an expression are two entries, the node and the values."""

    __slots__ = ("answers", "done", "home", "lasting", "read", "result", "seen", "spoiled", "steps")

    def __init__(self, done: Done) -> None:
        self.steps: list[Any] = []
        self.lasting: dict[Step, None] = {}
        """What it wrote that stays from pass to pass."""
        self.home: Machine | None = None
        """Where that has been written."""
        self.spoiled = False
        """Whether it read or did something that is in no step."""
        self.done = done
        self.result: Values = frozenset()
        self.seen: dict[ast.AST, Values] = {}
        """The last values that it gave each expression."""
        self.read: dict[ast.AST, Values] = {}
        """The last values of expressions that it has read."""
        self.answers: dict[object, object] = {}
        """What it was told, by what it asked."""

    def evaluated(self, node: ast.AST, values: Values) -> None:
        """The expression `node` has `values`, beside those that other runs gave it."""
        if self.seen.get(node) != values:
            self.seen[node] = values
            self.steps += (node, values)

    def read_values(self, node: ast.AST, values: Values) -> None:
        """All values of `node` so far are `values`. Only the body's own steps change them meanwhile."""
        if self.read.get(node) != values:
            self.read[node] = values
            self.steps.append((OF, node, values))

    def asked(self, question: object, arguments: Step, answer: object) -> None:
        """`question(machine, *arguments)` was answered by `answer`."""
        key = (question, *arguments)
        if key not in self.answers or self.answers[key] != answer:
            self.answers[key] = answer
            self.steps.append((again_asked, question, arguments, answer))

    def close(self) -> None:
        """It has ended: what only its recording needs goes."""
        self.seen = self.read = self.answers = {}
        self.done = NOTHING


NOTHING = Done()


class Traces:
    """The traces of a program, and of the programs that stages make of it."""

    def __init__(self) -> None:
        self.known: dict[Step, list[Trace]] = {}
        self.slots = Slots()
        """Those that the steps name."""
        self.steps = 0
        self.never: set[ast.AST] = set()
        """Functions which are read in a way of their own in some pass."""
        self.bases: dict[ast.ClassDef, object] = {}

    def keep(self, key: Step, trace: Trace) -> None:
        """Keeps `trace` of a run under the arguments `key`."""
        if self.steps + len(trace.steps) > MOST_STEPS:
            return
        self.steps += len(trace.steps)
        versions = self.known.setdefault(key, [])
        versions.insert(0, trace)
        if len(versions) > MOST_TRACES:
            self.steps -= len(versions.pop().steps)

    def clear(self) -> None:
        """No trace is left."""
        self.known.clear()
        self.steps = 0

    def end(self) -> None:
        """What is known is needed no more."""
        self.clear()
        self.slots = Slots()
        self.never.clear()
        self.bases.clear()

    def learn(self, node: ast.ClassDef, bases: object) -> None:
        """What classes derive from goes into no step: where that changes, nothing is as before."""
        if self.bases.setdefault(node, bases) != bases:
            self.bases[node] = bases
            self.clear()


# -- steps ----------------------------------------------------------------------------------------
def is_proven(machine: Machine, site: ast.AST) -> bool:
    """Whether the object made at `site` is known to have parameters."""
    return site in machine.facts.proven_models


def again_done(machine: Machine, step: Step) -> bool:
    step[1](machine, *step[2])
    return True


def again_asked(machine: Machine, step: Step) -> bool:
    return step[1](machine, *step[2]) == step[3]
