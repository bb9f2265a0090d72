"""Numbers that tell where a batch begins: the steps of a `range`, and what is computed from a loop's counter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts import catalog
from accel_migrate.facts.values import UNKNOWN, Literal, Made, Role, Values, locals_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_migrate.facts.facts import Facts
    from accel_migrate.facts.machine import Frame, Machine

COUNTER = "counter"
"""Detail of a number that counts the turns of a loop."""
START = "start"
"""Detail of a number that goes on by more than one in each turn."""
SLICE = "slice"
"""Detail of a slice object that begins at such a number."""
RANGES = {"range", "numpy.arange", "torch.arange", "tqdm.trange", "tqdm.auto.trange"}


def asks_for_any(facts: Facts, node: ast.expr) -> bool:
    """Whether a number is only compared to 0: no process is without rows, it borrows one then."""
    question = facts.parents[node]
    sides = [question.left, *question.comparators] if isinstance(question, ast.Compare) else []
    return any(isinstance(side, ast.Constant) and side.value == 0 for side in sides)


class Counting:
    """Part of `Evaluator`; everything here is for programs that make their batches by hand."""

    machine: Machine
    facts: Facts
    eval: Callable[[ast.expr, Frame], Values]

    def stepped(self, name: str, node: ast.Call) -> Values | None:
        """What `range(0, n, size)` and its kin return; None for other calls."""
        if name == "slice" and node.args and is_start(self.facts.of(node.args[0])):
            return _number(node, SLICE)
        if name == "sklearn.utils.gen_batches":
            return self._iterator(node, name, SLICE)
        step = node.args[2] if len(node.args) == 3 else None
        if name not in RANGES or (step is None and name.endswith("arange")):
            return None
        return self._iterator(node, name, COUNTER if step is None or _is_one(self.facts.of(step)) else START)

    def _iterator(self, node: ast.Call, name: str, detail: str) -> Values:
        role = Role.PROGRESS if name in catalog.PROGRESS_BARS else Role.OBJECT
        iterator = Made(role, node, f"iter:{name}")
        self.machine.write_heap(iterator, "yields", _number(node, detail))
        return frozenset({iterator})

    def counted(self, node: ast.BinOp, left: Values, right: Values) -> Values:
        """`i * size` begins a batch where `i` counts; a sum or difference is what its counting side is."""
        details = {v.detail for v in left | right if isinstance(v, Made)}
        if isinstance(node.op, ast.Mult) and COUNTER in details:
            return _number(node, START)
        if isinstance(node.op, ast.Add | ast.Sub):
            return next((_number(node, detail) for detail in (START, COUNTER) if detail in details), UNKNOWN)
        return UNKNOWN

    def moved_on(self, node: ast.AugAssign, old: Values, new: Values) -> Values:
        """`start += size` in a loop: the beginning of the next batch; nothing for other assignments."""
        numbers = any(isinstance(v, Literal) and type(v.value) is int for v in old) or is_start(old)
        if not self.machine.by_hand or not isinstance(node.op, ast.Add) or not numbers or locals_of(old | new):
            return UNKNOWN
        return _number(node, COUNTER if _is_one(new) else START)

    def set_moving(self, loop: ast.While, frame: Frame) -> None:
        """Numbers that `loop` moves on are such from its first turn on."""
        for step in ast.walk(loop) if self.machine.by_hand else ():
            if isinstance(step, ast.AugAssign) and isinstance(step.target, ast.Name):
                name = step.target.id
                old = frame.env.get(name, UNKNOWN)
                frame.env[name] = old | self.moved_on(step, old, self.eval(step.value, frame))


def is_start(values: Values) -> bool:
    """Whether `values` are a number at which batches begin."""
    return any(isinstance(v, Made) and v.detail == START for v in values)


def is_slice(values: Values) -> bool:
    return any(isinstance(v, Made) and v.detail == SLICE for v in values)


def is_number(value: object) -> bool:
    return isinstance(value, Made) and value.detail in {COUNTER, START}


def _number(node: ast.AST, detail: str) -> Values:
    return frozenset({Made(Role.OBJECT, node, detail)})


def _is_one(values: Values) -> bool:
    return values == frozenset({Literal(1)})
