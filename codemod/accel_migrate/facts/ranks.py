"""Which expressions are a rank, a number of processes, or a condition on them, wherever they were kept in between.

Values are followed by where they are kept: a variable of a scope, an attribute by its name, a parameter, what a function
returns. A place has a kind where everything put into it, apart from constants that stand in for "one process", has it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from accel_migrate.facts.arguments_of import bound_arguments
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.rank_answers import Answers
from accel_migrate.facts.rank_names import CALLS, LAUNCHER_ARGUMENTS, VARIABLES, Kind, Meaning
from accel_migrate.facts.rank_tests import about_rank, about_size, stands_for_one
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Ref

INIT = {"torch.distributed.init_process_group", "torch.distributed.distributed_c10d.init_process_group"}
CONDITIONS = {Kind.FLAG, Kind.MAIN}
MAX_PASSES = 6

Place = tuple[object, str]


@dataclass(eq=False)
class Ranks:
    """`of(node)`: what an expression says of the processes; None where that is nothing, or unknown."""

    facts: Facts
    places: dict[Place, Meaning] = field(default_factory=dict)
    sources: dict[Place, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    """What is put into each place."""
    given: dict[Place, Meaning] = field(default_factory=dict)
    """Places whose meaning follows from how they are used: `init_process_group(rank=args.rank)`."""

    @classmethod
    def of_program(cls, facts: Facts) -> Ranks:
        ranks = cls(facts)
        ranks._collect()
        for _ in range(MAX_PASSES):
            before = dict(ranks.places)
            ranks.places = {place: found for place in {*ranks.sources, *ranks.given} if (found := ranks._joined(place)) is not None}
            if ranks.places == before:
                break
        return ranks

    def of(self, node: ast.expr) -> Meaning | None:
        method = getattr(self, f"_{type(node).__name__}", None)
        return method(node) if method is not None else None

    def kind(self, node: ast.expr) -> Kind | None:
        """The kind of a plain, not negated meaning."""
        found = self.of(node)
        return found.kind if found is not None and not found.negated else None

    def place(self, node: ast.expr) -> Place | None:
        """Where the value of a name or attribute is kept."""
        if isinstance(node, ast.Name):
            scope = self.facts.scope(node).owner(node.id)
            if scope is not None and scope.is_class:
                return "attribute", node.id
            return (scope, node.id) if scope is not None else None
        if isinstance(node, ast.Attribute) and not any(isinstance(v, Ref) for v in self.facts.of(node)):
            return "attribute", node.attr
        return None

    # -- collecting ---------------------------------------------------------------------------------
    def _collect(self) -> None:
        for _, node in self.facts.nodes(ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.Return):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._note(target, node.value)
            elif isinstance(node, ast.Return):
                if node.value is not None:
                    self._note_returned(node, node.value)
            elif node.value is not None:  # type: ignore[attr-defined]
                self._note(node.target, node.value)  # type: ignore[attr-defined]
        for function, calls in self.facts.callers.items():
            if isinstance(function, ast.FunctionDef):
                for call in calls:
                    for name, value in bound_arguments(self.facts, call, function).items():
                        self.sources[self.facts.scopes[function], name].append(value)
        self._collect_given()

    def _note(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._note(one, other)
            elif isinstance(value, ast.Call):
                for index, element in enumerate(target.elts):
                    self._note_element(element, value, index)
            return
        place = self.place(target)
        if place is not None:
            self.sources[place].append(value)

    def _note_element(self, target: ast.expr, call: ast.Call, index: int) -> None:
        """`rank, device = setup()`: the elements of what `setup` returns."""
        place = self.place(target)
        for callee in self.facts.callees.get(call, ()):
            for node in ast.walk(callee):
                value = getattr(node, "value", None)
                if place is not None and isinstance(node, ast.Return) and isinstance(value, ast.Tuple) and index < len(value.elts):
                    self.sources[place].append(value.elts[index])

    def _note_returned(self, node: ast.Return, value: ast.expr) -> None:
        self.sources[self.facts.function(node), "return"].append(value)

    def _collect_given(self) -> None:
        for call, name in self.facts.external.items():
            if name in INIT:
                for keyword in call.keywords:
                    self._give(keyword.value, {"rank": Kind.RANK, "world_size": Kind.WORLD}.get(keyword.arg or ""))
                for value, kind in zip(call.args[3:5], (Kind.WORLD, Kind.RANK), strict=False):
                    self._give(value, kind)
                self._give_switches(call)
            elif name.endswith("DistributedSampler"):
                for keyword in call.keywords:
                    self._give(keyword.value, {"rank": Kind.RANK, "num_replicas": Kind.WORLD}.get(keyword.arg or ""))
        for _, node in self.facts.nodes(ast.Call):
            dest = argument_name(node) if isinstance(node, ast.Call) else ""
            if dest in LAUNCHER_ARGUMENTS:
                self.given["attribute", dest] = Meaning(LAUNCHER_ARGUMENTS[dest])

    def _give_switches(self, init: ast.Call) -> None:
        """`args.distributed = True` beside the call that makes the process group."""
        for node in ast.walk(self.facts.function(init)):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is True:
                for target in node.targets:
                    if self._is_switched_off(target):
                        self._give(target, Kind.FLAG)

    def _is_switched_off(self, target: ast.expr) -> bool:
        """Whether `target` is False elsewhere."""
        place = self.place(target)
        return place is not None and any(isinstance(s, ast.Constant) and s.value is False for s in self.sources.get(place, ()))

    def _give(self, value: ast.expr, kind: Kind | None) -> None:
        place = self.place(value)
        if place is None or kind is None:
            return
        self.given[place] = Meaning(kind)
        for source in self.sources.get(place, ()):
            if isinstance(place[0], Scope) and self._is_parameter(place):
                self._give_further(source, kind)

    def _give_further(self, source: ast.expr, kind: Kind) -> None:
        """What callers pass on as a rank is one: `setup(rank, world_size)`."""
        if isinstance(source, ast.Name | ast.Attribute) and (place := self.place(source)) is not None and place not in self.given:
            self._give(source, kind)

    def _is_parameter(self, place: Place) -> bool:
        scope = place[0]
        arguments = getattr(getattr(scope, "node", None), "args", None)
        return isinstance(arguments, ast.arguments) and any(a.arg == place[1] for a in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])

    def _joined(self, place: Place) -> Meaning | None:
        if place in self.given:
            return self.given[place]
        if isinstance(place[0], ast.FunctionDef):
            answer = Answers(self).of_block(place[0].body)
            return answer if isinstance(answer, Meaning) else None
        found: set[Meaning | None] = set()
        for value in self.sources[place]:
            if not stands_for_one(value) and self.place(value) != place:
                found.add(self.of(value))
        return found.pop() if len(found) == 1 else None

    # -- expressions --------------------------------------------------------------------------------
    def _Name(self, node: ast.expr) -> Meaning | None:
        place = self.place(node)
        return self.places.get(place) if place is not None else None

    def _Attribute(self, node: ast.Attribute) -> Meaning | None:
        return Meaning(Kind.FLAG) if node.attr == "use_distributed" else self._Name(node)

    def _Subscript(self, node: ast.Subscript) -> Meaning | None:
        return self._variable(node.slice) if self._is_environment(node.value) else None

    def _Call(self, node: ast.Call) -> Meaning | None:
        name = self.facts.external.get(node, "")
        if name in CALLS:
            return Meaning(CALLS[name])
        if name in {"int", "bool", "str"} and node.args:
            return self.of(node.args[0])
        if name in {"os.environ.get", "os.getenv"} and node.args:
            return self._variable(node.args[0])
        found = {self.places.get((callee, "return")) for callee in self.facts.callees.get(node, ())}
        return found.pop() if len(found) == 1 else None

    def _variable(self, name: ast.expr) -> Meaning | None:
        kind = VARIABLES.get(name.value) if isinstance(name, ast.Constant) else None
        return Meaning(kind) if kind is not None else None

    def _is_environment(self, node: ast.expr) -> bool:
        return any(isinstance(v, Ref) and v.name == "os.environ" for v in self.facts.of(node))

    def _IfExp(self, node: ast.IfExp) -> Meaning | None:
        found = {self.of(value) for value in (node.body, node.orelse) if not stands_for_one(value)}
        return found.pop() if len(found) == 1 else None

    def _UnaryOp(self, node: ast.UnaryOp) -> Meaning | None:
        found = self.of(node.operand) if isinstance(node.op, ast.Not) else None
        if found is None:
            return None
        if found.kind in {Kind.RANK, Kind.LOCAL_RANK}:
            return Meaning(Kind.MAIN)
        return found.opposite() if found.kind in {*CONDITIONS, Kind.AVAILABLE} else None

    def _BinOp(self, node: ast.BinOp) -> Meaning | None:
        """The rank on a node. What else is computed from ranks is a rank only where it is used as one (`given`)."""
        modulo = isinstance(node.op, ast.Mod) and self.kind(node.left) is Kind.RANK and self.kind(node.right) is Kind.LOCAL_WORLD
        return Meaning(Kind.LOCAL_RANK) if modulo else None

    def _BoolOp(self, node: ast.BoolOp) -> Meaning | None:
        found = [self.of(value) for value in node.values]
        if isinstance(node.op, ast.Or):
            return self.any_of(found)
        return self.all_of(found)

    def any_of(self, found: list[Meaning | None]) -> Meaning | None:
        """`not distributed or rank == 0` holds on the main process."""
        if set(found) <= {Meaning(Kind.FLAG)}:
            return Meaning(Kind.FLAG)
        main, single = Meaning(Kind.MAIN), Meaning(Kind.FLAG, negated=True)
        if set(found) <= {main, single} and main in found:
            return main
        if set(found) <= {single, Meaning(Kind.AVAILABLE, negated=True)}:
            return single
        return None

    def all_of(self, found: list[Meaning | None]) -> Meaning | None:
        """`is_available() and is_initialized()`: there are several processes; with `rank == 0`, and this is the first of them."""
        rest = set(found) - {Meaning(Kind.AVAILABLE)}
        if rest and rest <= {Meaning(Kind.FLAG)}:
            return Meaning(Kind.FLAG)
        main = Meaning(Kind.MAIN)
        return main if rest and rest <= {main, Meaning(Kind.FLAG)} and main in rest else None

    def _Compare(self, node: ast.Compare) -> Meaning | None:
        if len(node.ops) != 1:
            return None
        op, right = node.ops[0], node.comparators[0]
        if isinstance(op, ast.In | ast.NotIn) and self._is_environment(right) and self._variable(node.left) is not None:
            return Meaning(Kind.FLAG, isinstance(op, ast.NotIn))
        kind = self.kind(node.left)
        if kind in {Kind.RANK, Kind.LOCAL_RANK}:
            return None if self._asks_for_argument(node) else about_rank(op, right)
        if kind is Kind.WORLD:
            return about_size(op, right)
        if kind in CONDITIONS and isinstance(right, ast.Constant) and isinstance(op, ast.Is | ast.Eq) and isinstance(right.value, bool):
            return Meaning(kind, not right.value)
        return None


    def _asks_for_argument(self, node: ast.Compare) -> bool:
        """`if rank is None: rank = get_rank()` of an argument `rank=None` asks whether it was given, not for processes."""
        choice, asked = self.facts.parents.get(node), node.left
        if not isinstance(choice, ast.If) or choice.test is not node or not isinstance(asked, ast.Name) or ast.unparse(node.comparators[0]) != "None":
            return False
        place = self.place(asked)
        filled = any(isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == asked.id for s in choice.body)
        return filled and place is not None and self._is_parameter(place)


def argument_name(node: ast.Call) -> str:
    """The attribute that `parser.add_argument("--local-rank", ...)` fills; empty for other calls."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"):
        return ""
    dest = next((k.value for k in node.keywords if k.arg == "dest"), None)
    if isinstance(dest, ast.Constant):
        return str(dest.value)
    names = [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
    long = next((n for n in names if n.startswith("--")), names[0] if names else "")
    return long.lstrip("-").replace("-", "_")
