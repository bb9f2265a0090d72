"""Checkpoints of a wrapped model have `module.` before every key: those of the result, whose model is not wrapped, do not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.distributed import ranks_of
from accel_migrate.facts.ranks import Place, Ranks

ID = "wrapped-keys"
TITLE = "Report checkpoints of wrapped models, whose keys have a prefix"
WHY = "a prepared model is not wrapped"
WRAPPERS = catalog.DATA_PARALLEL | catalog.DISTRIBUTED_DATA_PARALLEL
STRIP = 'torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")'


def apply(context: Context) -> Iterator[Edit | Finding]:
    wraps = list(context.calls_of(*WRAPPERS))
    if not wraps:
        return
    wrapped = _Wrapped(context, wraps)
    for source, call in context.facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in {"state_dict", "load_state_dict"} or not wrapped.holds(call.func.value):
            continue
        if _looks_inside(context, call, ast.unparse(call.func.value)):
            continue
        saves = call.func.attr == "state_dict"
        yield Finding(source=source, node=call, rule=ID, severity=wrapped.severity, message=_SAVED if saves else _loaded(call), advice=_ADVICE[saves])


_SAVED = "the wrapped model put `module.` before each key of its checkpoints; the result writes them without it"
_ADVICE = {
    True: "where another script loads this file into a wrapped model, let it load into `model.module`, or migrate it too",
    False: f"for files which the original wrote: {STRIP}",
}


def _loaded(call: ast.Call) -> str:
    lenient = any(k.arg == "strict" and isinstance(k.value, ast.Constant) and k.value.value is False for k in call.keywords)
    outcome = "with strict=False it takes nothing from a file that the original wrote, without a word" if lenient else "a file that the original wrote is refused"
    return f"the wrapped model had `module.` before each key, the model of the result has not: {outcome}"


def _looks_inside(context: Context, call: ast.Call, model: str) -> bool:
    """Whether the script takes the model out of a wrapper there: `if hasattr(model, "module"): ... else: model.state_dict()`."""
    around = [a for a in context.facts.ancestors(call) if isinstance(a, ast.If | ast.IfExp)]
    for choice in around:
        test = ast.unparse(choice.test).replace('"', "'")
        asked = test == f"hasattr({model}, 'module')" or test.startswith(f"isinstance({model}, ")
        others = choice.orelse if isinstance(choice.orelse, list) else [choice.orelse]
        if asked and any(context.facts.inside(call, other) for other in others):
            return True
    return False


class _Wrapped:
    """Which expressions are the model in its wrapper, wherever it was kept in between."""

    def __init__(self, context: Context, wraps: list[ast.Call]) -> None:
        self.facts = context.facts
        self.wraps = set(wraps)
        self.ranks: Ranks = ranks_of(context.facts)
        self.severity = Severity.WARNING if any(self._always(call) for call in wraps) else Severity.INFO
        self.places: set[Place] = set()
        while new := {place for place, sources in self.ranks.sources.items() if any(map(self.holds, sources))} - self.places:
            self.places |= new

    def holds(self, node: ast.expr) -> bool:
        """Whether `node` may be the wrapped model where it stands."""
        if isinstance(node, ast.IfExp):
            return self.holds(node.body) or self.holds(node.orelse)
        if isinstance(node, ast.Call):
            moved = isinstance(node.func, ast.Attribute) and node.func.attr in {"to", "cuda"} and self.holds(node.func.value)
            return node in self.wraps or moved or any((callee, "return") in self.places for callee in self.facts.callees.get(node, ()))
        return self.ranks.place(node) in self.places and not self._ahead(node)

    def _ahead(self, node: ast.expr) -> bool:
        """Whether the function of `node` wraps the model further down only."""
        here = [call for call in self.wraps if self.facts.function(call) is self.facts.function(node)]
        return bool(here) and all(call.lineno > node.lineno for call in here)

    def _always(self, call: ast.Call) -> bool:
        """Whether the model is wrapped under no condition."""
        return not any(isinstance(a, ast.If | ast.IfExp) for a in self.facts.ancestors(call))
