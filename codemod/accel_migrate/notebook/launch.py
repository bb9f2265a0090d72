"""Which calls of a notebook train, so that they can be started on several processes.

A launched call runs in processes forked from the notebook's. Everything that it trains is made inside of it: an object
from another cell would be a copy in each process, and the notebook's own would stay untrained.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from accel_migrate.edits import AddImport, DropImportIfUnused, Edit, Finding
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.home import Home
from accel_migrate.facts.values import Role
from accel_migrate.places import node_of

RULE = "notebook-launch"
_ARE_MADE_TO_TRAIN = {"prepare", "backward", "gradient-accumulation", "native-amp", "clip-gradients"}
"""Rules whose edits belong to the training itself: one of them elsewhere means that not all of it is launched."""


@dataclass(frozen=True, eq=False)
class Launch:
    """Calls at the top level of a notebook inside of which all training happens."""

    calls: tuple[ast.Call, ...]
    inside: frozenset[ast.AST]
    """The functions that run in the launched processes."""

    def homes(self, homes: Iterable[Home]) -> list[Home]:
        """Those of `homes` that are inside."""
        return [home for home in homes if home.scope.node in self.inside]

    def runs(self, facts: Facts, node: ast.AST) -> bool:
        """Whether `node` runs in the launched processes."""
        return node in self.inside or any(ancestor in self.inside for ancestor in facts.ancestors(node))

    def is_outside(self, facts: Facts, item: Edit | Finding) -> bool:
        """Whether `item` concerns code that runs in the notebook's own process."""
        node = node_of(item)
        return node is not None and item.rule != RULE and not self.runs(facts, node)

    def is_enough(self, facts: Facts, edits: Iterable[Edit], passed_to: Iterable[ast.AST]) -> bool:
        """Whether `edits` can do without those outside. `passed_to`: the functions to which the accelerator is passed."""
        if any(self.is_outside(facts, edit) and edit.rule in _ARE_MADE_TO_TRAIN for edit in edits):
            return False
        calls = (call for function in passed_to for call in facts.callers.get(function, {}))  # type: ignore[call-overload]
        return all(self.runs(facts, call) for call in calls)

    def kept(self, facts: Facts, edits: Iterable[Edit]) -> list[Edit]:
        """`edits` without those outside, and without the imports that only those needed."""
        edits = [edit for edit in edits if not self.is_outside(facts, edit)]
        texts = " ".join(_text(edit) for edit in edits)
        return [edit for edit in edits if not isinstance(edit, AddImport) or any(n in texts for n in edit.names or (edit.module,))]


def launch_of(facts: Facts, result_comes_back: bool) -> Launch | None:
    """The launch of a notebook's training; None for a script, and where training is not in functions called there.

    `result_comes_back`: whether the launcher returns what the function returned.
    """
    entry = facts.entry
    if entry is None or entry.notebook is None:
        return None
    training = {facts.function(backward.call) for backward in facts.backwards.values()}
    calls = {call: _reached(facts, function) for call, function in _calls(facts, entry.tree)}
    calls = {call: reached for call, reached in calls.items() if reached & training}
    inside = frozenset().union(*calls.values())
    if not calls or not training <= inside:
        return None
    if not all(_is_plain(facts, call, result_comes_back) for call in calls):
        return None
    return Launch(tuple(calls), inside)


def _calls(facts: Facts, module: ast.AST) -> Iterable[tuple[ast.Call, ast.AST]]:
    for call, functions in facts.callees.items():
        if facts.function(call) is module:
            yield from ((call, function) for function in functions)


def _reached(facts: Facts, function: ast.AST) -> frozenset[ast.AST]:
    found = {function}
    pending = [function]
    while pending:
        for node in ast.walk(pending.pop()):
            callees = facts.callees.get(node, set()) if isinstance(node, ast.Call) else set()
            inner = {node} if isinstance(node, ast.FunctionDef) else set()
            new = (callees | inner) - found
            found |= new
            pending += new
    return frozenset(found)


def _is_plain(facts: Facts, call: ast.Call, result_comes_back: bool) -> bool:
    """Whether `call` is `function(...)` of one known function, with arguments that a launcher can pass on."""
    starred = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    functions = facts.callees[call]
    plain = all(isinstance(f, ast.FunctionDef) and facts.scopes[f].enclosing_class is None for f in functions)
    return plain and len(functions) == 1 and not starred and (result_comes_back or (isinstance(facts.parents[call], ast.Expr) and not _returns_models(facts, call)))


def _returns_models(facts: Facts, call: ast.Call) -> bool:
    """Whether the function hands back a model: wrapped for several processes, it cannot leave its process."""
    returned = (node.value for function in facts.callees[call] for node in ast.walk(function) if isinstance(node, ast.Return) and node.value)
    return any(facts.has_role(part, Role.MODEL) for value in returned for part in ast.walk(value))


def _text(edit: Edit) -> str:
    if isinstance(edit, AddImport | DropImportIfUnused):
        return ""
    return " ".join(str(getattr(edit, name, "")) for name in ("template", "header", "value"))
