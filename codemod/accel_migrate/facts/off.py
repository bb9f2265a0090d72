"""What conditions are worth when a program runs as one process and no flag asks for more."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.rank_names import Kind
from accel_migrate.facts.ranks import Place, Ranks, argument_name

Constants = frozenset[object]
"""The values that an expression may have; never empty."""

SINGLE: dict[Kind, object] = {Kind.RANK: 0, Kind.LOCAL_RANK: 0, Kind.WORLD: 1}
CONDITIONS = {Kind.FLAG: False, Kind.MAIN: True}
COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Lt: operator.lt, ast.LtE: operator.le,
}  # fmt: skip


@dataclass(eq=False)
class Off:
    """`value(node)`: the constants which `node` may be, None where that is not known.

    `switches` are the places that turn the distributed branches on; others keep their unknown values, so that
    `args.resume` is no constant although it has a default.
    """

    facts: Facts
    ranks: Ranks
    switches: set[Place] | None = None
    """None: every place is looked through, as when the switches are being found."""
    read: set[Place] = field(default_factory=set)
    """Places that were looked through."""
    defaults: dict[str, object] = field(default_factory=dict)
    _running: set[Place] = field(default_factory=set)

    def __post_init__(self) -> None:
        for _, node in self.facts.nodes(ast.Call):
            name = argument_name(node)  # type: ignore[arg-type]
            if name:
                self.defaults[name] = _default(node)  # type: ignore[arg-type]

    def truth(self, node: ast.expr) -> bool | None:
        found = self.value(node)
        answers = {bool(v) for v in found} if found is not None else set()
        return answers.pop() if len(answers) == 1 else None

    def value(self, node: ast.expr) -> Constants | None:
        meaning = self.ranks.of(node)
        if meaning is not None and meaning.kind in CONDITIONS:
            return frozenset({CONDITIONS[meaning.kind] is not meaning.negated})
        method = getattr(self, f"_{type(node).__name__}", None)
        found = method(node) if method is not None else None
        if found is None and meaning is not None and meaning.kind in SINGLE:
            return frozenset({SINGLE[meaning.kind]})
        return found

    def _Constant(self, node: ast.Constant) -> Constants:
        return frozenset({node.value})

    def _Name(self, node: ast.expr) -> Constants | None:
        place = self.ranks.place(node)
        if place is None or place in self._running or (self.switches is not None and place not in self.switches):
            return None
        self.read.add(place)
        self._running.add(place)
        try:
            return self._kept(place)
        finally:
            self._running.discard(place)

    _Attribute = _Name

    def _kept(self, place: Place) -> Constants | None:
        """What may be kept at `place`: the default of its argument and what is assigned to it in branches that run."""
        found: set[object] = set()
        if place[0] == "attribute" and place[1] in self.defaults:
            found.add(self.defaults[place[1]])
        for source in self.ranks.sources.get(place, ()):
            if not self._runs(source):
                continue
            values = self.value(source)
            if values is None:
                return None
            found |= values
        return frozenset(found) if found and UNKNOWN_DEFAULT not in found else None

    def _runs(self, source: ast.expr) -> bool:
        """Whether no condition around `source` is false."""
        child: ast.AST = source
        for ancestor in self.facts.ancestors(source):
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef):
                break
            if isinstance(ancestor, ast.If) and child is not ancestor.test and self.truth(ancestor.test) is (child in ancestor.orelse):
                return False
            child = ancestor
        return True

    def _UnaryOp(self, node: ast.UnaryOp) -> Constants | None:
        if isinstance(node.op, ast.Not):
            truth = self.truth(node.operand)
            return None if truth is None else frozenset({not truth})
        value = node.operand.value if isinstance(node.operand, ast.Constant) else None
        return frozenset({-value}) if isinstance(node.op, ast.USub) and isinstance(value, int | float) else None

    def _BoolOp(self, node: ast.BoolOp) -> Constants | None:
        decisive = isinstance(node.op, ast.Or)
        truths = [self.truth(value) for value in node.values]
        if decisive in truths:
            return frozenset({decisive})
        return None if None in truths else frozenset({not decisive})

    def _IfExp(self, node: ast.IfExp) -> Constants | None:
        truth = self.truth(node.test)
        if truth is not None:
            return self.value(node.body if truth else node.orelse)
        first, second = self.value(node.body), self.value(node.orelse)
        return None if first is None or second is None else first | second

    def _Call(self, node: ast.Call) -> Constants | None:
        if self.facts.external.get(node) in {"int", "bool", "float"} and len(node.args) == 1:
            return self.value(node.args[0])
        return None

    def _Compare(self, node: ast.Compare) -> Constants | None:
        compare = COMPARISONS.get(type(node.ops[0]))
        if len(node.ops) != 1 or compare is None:
            return None
        if self.ranks.kind(node.left) is Kind.LOCAL_WORLD and (type(node.ops[0]), ast.unparse(node.comparators[0])) in {(ast.Gt, "1"), (ast.GtE, "2")}:
            return frozenset({False})
        left, right = self.value(node.left), self.value(node.comparators[0])
        if left is None or right is None:
            return None
        try:
            return frozenset(compare(a, b) for a in left for b in right)
        except TypeError:
            return None


UNKNOWN_DEFAULT = object()


def _default(call: ast.Call) -> object:
    """The default of a command line argument."""
    keywords = {k.arg: k.value for k in call.keywords}
    action = keywords.get("action")
    if isinstance(action, ast.Constant) and action.value in {"store_true", "store_false"}:
        return action.value == "store_false"
    default = keywords.get("default", ast.Constant(None))
    try:
        return ast.literal_eval(default)
    except (ValueError, TypeError):
        return UNKNOWN_DEFAULT
