"""Records that outlive the batch of which they hold figures: `history.append({"loss": loss.item(), "rows": len(x)})`.

The figures are converted where they are written: in the tuple or dict itself, by `record["rows"] = ...` or `record.update(rows=...)`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from accel_migrate.facts.effects import copy_entries, note_entry
from accel_migrate.facts.values import Box, Local, Spread, Value, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Frame

FIGURES = {Spread.MEAN, Spread.SUM, Spread.RATIO, Spread.COUNT, Spread.RATE}


class Records:
    """Part of `Evaluator`."""

    _entries: defaultdict[ast.AST, dict[ast.expr, None]]
    """What is written into the container made at a site, later than there."""

    def entered(self, owners: Values, node: ast.expr, values: Values, frame: Frame) -> Values:
        """What containers among `owners` hold of `values`, which `node` writes into them."""
        for owner in owners:
            if isinstance(owner, Box):
                self.machine.tell(note_entry, owner.site, node)
        return self._converted_if_kept(node, values, frame)

    def keep_results(self, values: Values, call: ast.Call | None = None) -> None:
        """Tuples and dicts of figures of a batch outlive it, by `call`: the figures are converted where the containers are written."""
        pending, seen = [v.site for v in values if isinstance(v, Box)], set[ast.AST]()
        if not pending:
            return
        self.machine.spoil()
        shown = not self._trains(call)
        while pending:
            site = pending.pop()
            if site in seen:
                continue
            seen.add(site)
            detached = shown and any(around is call for around in self.facts.ancestors(site))
            for node in (*written(site), *self._entries[site]):
                pending.extend(v.site for v in self.facts.of(node) if isinstance(v, Box))
                if self._is_figure(self.facts.of(node), detached) and node not in self.machine.kept:
                    self.machine.keep(node, call)
                    self.machine.changed = True

    def _converted_if_kept(self, node: ast.expr, values: Values, frame: Frame) -> Values:
        if node not in self.machine.kept or (
            any(v.grad for v in locals_of(values)) and self._trains(self.machine.kept[node])
        ):
            return values
        self.convert(node, values, frame, "keep")
        return frozenset(v for v in values if not isinstance(v, Local))

    def _is_figure(self, values: Values, detached: bool = False) -> bool:
        """Whether `values` are numbers about a batch through which no gradient flows, or goes back."""
        found = locals_of(values)
        figures = any(v.spread in FIGURES or v.reduced is not None for v in found)
        return figures and not any((v.grad and not detached) or v.spread is Spread.SHARD for v in found)

    def _trains(self, call: ast.Call | None) -> bool:
        """Whether a backward pass may go through the container that `call` puts something into."""
        return call is None or not isinstance(call.func, ast.Attribute) or self._reaches_backward(call.func.value)  # type: ignore[attr-defined]

    def _copy_box(self, inner: Value, box: Box) -> None:
        for key, values in self.machine.held_by(inner):
            self.machine.write_heap(box, key, values)
        if isinstance(inner, Box) and inner.site is not box.site:
            self.machine.tell(copy_entries, inner.site, box.site)


def written(site: ast.AST) -> list[ast.expr]:
    """The values that stand in the container written at `site`."""
    if isinstance(site, ast.Dict):
        return site.values
    if isinstance(site, ast.Call):
        return [k.value for k in site.keywords if k.arg is not None]
    return site.elts if isinstance(site, ast.Tuple | ast.List) else []
