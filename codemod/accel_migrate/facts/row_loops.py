"""Loops which run once for each of this process's rows: `for i in range(len(x))`, `for row in out`, `[f(l) for l in losses]`.

The processes hold different numbers of rows, so they go through such a loop different numbers of times: what takes all
processes must not stand in one, and what is drawn in one moves their random streams apart.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.operations import spreads
from accel_migrate.facts.shaping import whole_counts
from accel_migrate.facts.values import Box, Spread, locals_of

RowLoop = ast.For | ast.AsyncFor | ast.comprehension
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
THROUGH = {"zip", "enumerate", "reversed", "list", "tqdm", "trange"}
SAME_EVERYWHERE = {"chunk", "items", "values", "keys"}
"""Methods that give as many parts on each process."""
FILLING = {"append", "extend", "insert"}


class RowLoops:
    """The loops of a program over the rows of one process."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.loops: set[ast.AST] = set()
        self._lists: set[ast.AST] = set()
        """Sites of lists with one entry for each row."""
        self._whole = {
            number for gather in facts.gathers.values() if gather.cut for number in whole_counts(facts, gather)
        }
        candidates = [
            node for _, node in facts.nodes(ast.For, ast.AsyncFor, ast.comprehension) if node not in facts.loops
        ]
        while found := {loop for loop in candidates if loop not in self.loops and self._runs_over_rows(loop.iter)}:  # type: ignore[attr-defined]
            self.loops |= found
            self._lists |= {parent for loop in found if isinstance(parent := facts.parents[loop], COMPREHENSIONS)}
            self._lists |= self._filled()

    def around(self, node: ast.AST) -> ast.AST | None:
        """The loop over rows in which `node` is evaluated, in its function or in a caller."""
        return self._around(node, set()) if self.loops else None

    def _around(self, node: ast.AST, seen: set[ast.AST]) -> ast.AST | None:
        child = node
        for ancestor in self.facts.ancestors(node):
            if ancestor in self.loops and child is not ancestor.iter:  # type: ignore[attr-defined]
                return ancestor
            if isinstance(ancestor, COMPREHENSIONS):
                inner = next((g for g in ancestor.generators if g in self.loops), None)
                if inner is not None and child is not inner:
                    return inner
            if isinstance(ancestor, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                return self._around_callers(ancestor, seen)
            child = ancestor
        return None

    def _around_callers(self, function: ast.AST, seen: set[ast.AST]) -> ast.AST | None:
        if function in seen:
            return None
        seen.add(function)
        calls = self.facts.callers.get(function, {})  # type: ignore[call-overload]
        return next((loop for call in calls if (loop := self._around(call, seen)) is not None), None)

    def _runs_over_rows(self, iterated: ast.expr) -> bool:
        values = self.facts.of(iterated)
        if isinstance(iterated, ast.Call):
            name = ast.unparse(iterated.func).rpartition(".")[2]
            if name == "range":
                return any(
                    spreads(self.facts.of(bound)) == {Spread.COUNT} and bound not in self._whole
                    for bound in iterated.args
                )
            if name in THROUGH:
                return any(self._runs_over_rows(argument) for argument in iterated.args)
            if name in SAME_EVERYWHERE:
                return False
        if any(isinstance(v, Box) for v in values):
            return any(isinstance(v, Box) and v.site in self._lists for v in values)
        return spreads(values) == {Spread.SHARD} and not any(
            v.batch or v.output or v.axis != 0 for v in locals_of(values)
        )

    def _filled(self) -> set[ast.AST]:
        """Lists made outside of a loop over rows and filled inside it."""
        found: set[ast.AST] = set()
        for call, (base, name) in self.facts.methods.items():
            loop = self.around(call) if name in FILLING else None
            found |= {
                v.site for v in base if loop is not None and isinstance(v, Box) and not self.facts.inside(v.site, loop)
            }
        return found
