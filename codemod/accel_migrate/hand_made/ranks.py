"""Ranks, numbers of processes and conditions on them become the accelerator's, wherever they are read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit
from accel_migrate.facts.distributed import process_group_calls, ranks_of
from accel_migrate.facts.rank_names import CALLS, Kind, Meaning
from accel_migrate.facts.rank_tests import stands_for_one
from accel_migrate.facts.ranks import Place, Ranks
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role
from accel_migrate.hand_made import ID
from accel_migrate.hand_made.divisors import divisors
from accel_migrate.hand_made.samplers import among_several

WHY = "the accelerator knows the processes"
ATTRIBUTES = {
    Kind.RANK: "process_index",
    Kind.LOCAL_RANK: "local_process_index",
    Kind.WORLD: "num_processes",
    Kind.FLAG: "use_distributed",
    Kind.MAIN: "is_main_process",
}
CONDITIONS = {Kind.FLAG, Kind.MAIN}


def edits(context: Context) -> Iterator[Edit]:
    reading = Reading(context, ranks_of(context.facts))
    for source in context.facts.sources:
        yield from reading.replaced(source.tree)


class Reading:
    """Replaces the outermost expressions that say something of the processes."""

    def __init__(self, context: Context, ranks: Ranks) -> None:
        self.context, self.ranks = context, ranks
        self.facts = context.facts
        self.skipped: set[ast.AST] = {self.facts.statement(call) for call in process_group_calls(self.facts)}
        self.skipped |= {choice.statement for choice in context.home.others}
        self.foreign = {place for place in {*ranks.places, *ranks.given} if self._is_foreign(place)}
        """Places whose values come from elsewhere: a command line, the number of devices, a helper that goes."""
        self.foreign |= {place for place in {*ranks.places} - self.foreign if self._starts_as_one(place)}
        self.divisors = divisors(context, ranks)

    def replaced(self, node: ast.AST) -> Iterator[Edit]:
        if node in self.skipped:
            return
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            edit = list(self._edit(node))
            if edit:
                yield from edit
                return
        for child in ast.iter_child_nodes(node):
            yield from self.replaced(child)

    def _edit(self, node: ast.expr) -> Iterator[Edit]:
        if (isinstance(node, ast.JoinedStr) and self._is_device(node)) or self._is_numbered_device(node):
            yield from self._say(node, "@accelerator@.device")
            return
        meaning = self.ranks.of(node)
        if isinstance(node, ast.Name | ast.Attribute) and self.ranks.place(node) in self.divisors:
            yield from self._say(node, "@accelerator@.num_processes")
            return
        if meaning is None or meaning.kind not in ATTRIBUTES or isinstance(node, ast.Constant):
            return
        text = f"@accelerator@.{ATTRIBUTES[meaning.kind]}"
        text = f"not {text}" if meaning.negated else text
        if isinstance(node, ast.Name | ast.Attribute):
            if self.ranks.place(node) in self.foreign:
                yield from self._say(node, text)
        elif meaning.kind in CONDITIONS:
            yield from self._condition(node, text)
        elif self._is_source(node) and (self._at_hand(node) or not self._is_safe(node)):
            yield from self._say(node, text)

    def _is_source(self, node: ast.expr) -> bool:
        """Whether `node` asks torch or the environment, and not a helper or variable of the script."""
        if isinstance(node, ast.Call):
            name = self.facts.external.get(node, "")
            return name in CALLS or (name == "int" and not self._reads_variable(node.args[0])) or self._at_hand(node)
        return isinstance(node, ast.IfExp) or (isinstance(node, ast.BinOp) and self._mentions_foreign(node))

    def _is_safe(self, node: ast.expr) -> bool:
        """Whether `node` is right on one process as it stands: asked among several only, or with a default."""
        asked = [n for n in ast.walk(node) if isinstance(n, ast.Call)]
        groups = [n for n in asked if self.facts.external.get(n, "").startswith("torch.distributed.get_")]
        variables = [n for n in asked if self.facts.external.get(n) in {"os.environ.get", "os.getenv"}]
        subscripts = [n for n in ast.walk(node) if isinstance(n, ast.Subscript)]
        guarded = all(among_several(self.context, n) for n in (*groups, *subscripts))
        return guarded and all(len(n.args) > 1 for n in variables) and not self._mentions_foreign(node)

    def _reads_variable(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name | ast.Attribute)

    def _mentions_foreign(self, node: ast.expr) -> bool:
        return any(isinstance(n, ast.Name | ast.Attribute) and self.ranks.place(n) in self.foreign for n in ast.walk(node))

    def _condition(self, node: ast.expr, text: str) -> Iterator[Edit]:
        """A condition reads better in the accelerator's words; where the accelerator is not at hand it holds as it is."""
        asks_outside = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn) and not isinstance(node.comparators[0], ast.Tuple | ast.List)
        if self._at_hand(node) or asks_outside or self._mentions_foreign(node):
            yield from self._say(node, text)

    def _at_hand(self, node: ast.AST) -> bool:
        return self.context.accelerator.is_at_hand(node)

    def _say(self, node: ast.expr, template: str) -> Iterator[Edit]:
        text, imports = self.context.say_passed(template, node, ID)
        yield self.context.replace(ID, node, text, WHY)
        yield from imports

    def _is_device(self, node: ast.JoinedStr) -> bool:
        """`f"cuda:{rank}"`, `f"{device}:{rank}"`."""
        parts = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
        if not parts or isinstance(self.facts.parents[node], ast.Dict) or not self._is_rank(parts[-1]):
            return False
        first = node.values[0]
        if isinstance(first, ast.Constant):
            return str(first.value).startswith("cuda:") and len(parts) == 1
        return len(parts) == 2 and self.facts.has_role(parts[0], Role.DEVICE)

    def _is_numbered_device(self, node: ast.expr) -> bool:
        """`torch.device("cuda", rank)`, and `rank` where a device is meant: `x.to(rank)`."""
        if isinstance(node, ast.Call) and self.facts.external.get(node) == "torch.device" and node.args:
            number = node.args[-1]
            return self._is_device(number) if isinstance(number, ast.JoinedStr) else len(node.args) == 2 and self._is_rank(number)
        parent = self.facts.parents[node]
        moves = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr in {"to", "cuda"} and node in parent.args
        named = isinstance(parent, ast.keyword) and parent.arg in {"device", "map_location"}
        return (moves or named) and self._is_rank(node)

    def _is_rank(self, node: ast.expr) -> bool:
        meaning = self.ranks.of(node)
        return meaning is not None and meaning.kind in {Kind.RANK, Kind.LOCAL_RANK}

    # -- places ------------------------------------------------------------------------------------
    def _is_foreign(self, place: Place) -> bool:
        meaning = self.ranks.given.get(place) or self.ranks.places.get(place)
        if meaning is None or meaning.kind not in ATTRIBUTES:
            return False
        sources = [s for s in self.ranks.sources.get(place, ()) if self.ranks.place(s) != place]
        told = [self._told(source) for source in sources if not stands_for_one(source)]
        if not isinstance(place[0], Scope):
            return True if meaning.kind is not Kind.MAIN and place in self.ranks.given else not all(t == meaning for t in told)
        return place in self.ranks.given and bool(sources) and not (told and all(t == meaning for t in told))

    def _starts_as_one(self, place: Place) -> bool:
        """`args.world_size = 1`, then `if ...: args.world_size = dist.get_world_size()`, read only where the accelerator is at hand."""
        meaning, sources = self.ranks.places[place], self.ranks.sources.get(place, ())
        told = [self._told(source) for source in sources if not stands_for_one(source)]
        if meaning.kind not in ATTRIBUTES or meaning.negated or len(told) == len(sources) or not told or any(t != meaning for t in told):
            return False
        reads = [n for _, n in self.facts.nodes(ast.Name, ast.Attribute) if isinstance(n.ctx, ast.Load) and self.ranks.place(n) == place]  # type: ignore[attr-defined, arg-type]
        return not isinstance(place[0], ast.FunctionDef) and all(self._at_hand(n) for n in reads)

    def _told(self, source: ast.expr) -> Meaning | None:
        return self.ranks.of(source)
