"""What outlives the function that writes it: attributes, containers, and the variables that other scopes read.

All values that anything writes into one place are joined. Passes over the program go on until one has read nothing that
it wrote more into later: such a pass would go the same way again.
"""

from __future__ import annotations

from collections import defaultdict

from accel_migrate.facts.joins import grown
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.slots import Place, Slot, Slots
from accel_migrate.facts.traces import BOUND, HELD, READ, WRITTEN, Trace
from accel_migrate.facts.values import UNKNOWN, Instance, Values


class Store:
    """Part of `Machine`."""

    def __init__(self) -> None:
        self.heap: defaultdict[object, dict[object, Values]] = defaultdict(dict)
        """What objects, containers and functions hold: by owner, then by attribute, index or key."""
        self.cells: dict[Place, Values] = {}
        """What variables hold anywhere in the program."""
        self.slots = Slots()
        """The same by place, with what the running pass did there."""
        self.said: defaultdict[int, dict[object, Values]] = defaultdict(dict)
        """What the running pass wrote into each table of the store, by the table's identity."""
        self.asked: set[object] = set()
        """Owners all of whose places the running pass has read."""
        self.changed = False
        """Whether the running pass has read a place that holds more by now."""
        self.trace: Trace | None = None
        """That of the running body, if it is a function's."""
        self.lists: dict[object, list[tuple[object, Values]]] = {}
        """What traces say that an owner holds: one list for all that say the same."""

    def begin_pass(self) -> None:
        """What the pass before this one read and wrote no longer counts."""
        self.said.clear()
        self.asked.clear()
        self.slots.number += 1
        self.changed = False

    def forget(self) -> None:
        """Starts over with an empty store."""
        self.heap.clear()
        self.cells.clear()
        self.slots.empty()

    # -- attributes and elements ------------------------------------------------------------------
    def read_heap(self, owner: object, key: object) -> Values:
        slots = self.slots
        slot = slots.heap[owner, key]
        slot.asked = slots.number
        if self.trace is not None:
            self.trace.steps.append((READ, slot, slot.values))
        return slot.values

    def read_attribute(self, owner: Instance, name: str) -> Values:
        """What is known to have been written to the attribute of `owner`, or else of other objects of its class."""
        return self.read_heap(owner.keeper, name) or self.read_heap(owner.cls, name)

    def held_by(self, owner: object) -> list[tuple[object, Values]]:
        """All that `owner` holds, each with its attribute, index or key."""
        self.asked.add(owner)
        found = list(self.heap[owner].items()) if owner in self.heap else []
        if self.trace is not None:
            before = self.lists.get(owner)
            if before != found:
                before = self.lists[owner] = found
            self.trace.steps.append((HELD, owner, before))
        return found

    def write_heap(self, owner: object, key: object, values: Values) -> None:
        if not values:
            return
        slot = self.slots.heap[owner, key]
        if self._join(self.heap[owner], key, values, slot) and (slot.asked == self.slots.number or owner in self.asked):
            self.changed = True
        if self.trace is not None:
            self.trace.steps.append((WRITTEN, slot, owner, key, values))

    # -- variables --------------------------------------------------------------------------------
    def read_cell(self, scope: Scope, name: str) -> Values:
        slots = self.slots
        slot = slots.cells[scope, name]
        slot.asked = slots.number
        if self.trace is not None:
            self.trace.steps.append((READ, slot, slot.values))
        return slot.values

    def write_cell(self, scope: Scope, name: str, values: Values) -> None:
        cell = (scope, name)
        slot = self.slots.cells[cell]
        if self._join(self.cells, cell, values, slot) and slot.asked == self.slots.number:
            self.changed = True
        if self.trace is not None:
            self.trace.steps.append((BOUND, slot, scope, name, values))

    # -- both -------------------------------------------------------------------------------------
    def narrow(self) -> bool:
        """Forgets what the last pass did not write again: guesses of passes that knew less. Whether it read any of them."""
        read = self._narrow(self.cells, self.slots.cells)
        for owner, table in self.heap.items():
            read |= self._narrow(table, self.slots.heap, owner)
        return read

    def _narrow(self, table: dict, slots: dict[Place, Slot], owner: object = None) -> bool:
        """Whether the pass has read what `table`, that of `owner` or of all variables, no longer holds."""
        said = self.said.get(id(table), {})
        guesses = [key for key, values in table.items() if said.get(key) != values]
        if guesses:
            table.clear()
            table.update(said)
        read = bool(guesses) and owner in self.asked
        for key in guesses:
            slot = slots[key if owner is None else (owner, key)]
            slot.values = said.get(key, UNKNOWN)
            read |= slot.asked == self.slots.number
        return read

    def _join(self, table: dict, key: object, values: Values, slot: Slot) -> bool:
        """Whether `table` holds more under `key`, which is the place of `slot`, than before."""
        if slot.passed == self.slots.number and values <= slot.said and values <= slot.values:
            return False  # so it was written in this pass; and what stands there is limited already
        said = self.said[id(table)]
        again = said.get(key, UNKNOWN)
        if not values <= again:
            again = said[key] = grown(again, values)
        slot.said, slot.passed = again, self.slots.number
        old = slot.values
        if values <= old:
            return False
        new = grown(old, values)
        if new == old:
            return False
        table[key] = slot.values = new
        return True
