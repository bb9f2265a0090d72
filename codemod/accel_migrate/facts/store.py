"""What outlives the function that writes it: attributes, containers, and the variables that other scopes read.

All values that anything writes into one place are joined. Passes over the program go on until one has read nothing that
it wrote more into later: such a pass would go the same way again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from accel_migrate.facts.joins import grown
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import UNKNOWN, Instance, Values


class Store:
    """Part of `Machine`."""

    def __init__(self) -> None:
        self.heap: defaultdict[object, dict[object, Values]] = defaultdict(dict)
        """What objects, containers and functions hold: by owner, then by attribute, index or key."""
        self.cells: dict[tuple[Scope, str], Values] = {}
        """What variables hold anywhere in the program."""
        self.said: defaultdict[int, dict[object, Values]] = defaultdict(dict)
        """What the running pass wrote into each table of the store, by the table's identity."""
        self.asked: set[object] = set()
        """The places that the running pass has read: of the heap and the cells, and owners all of whose places it read."""
        self.changed = False
        """Whether the running pass has read a place that holds more by now."""

    def begin_pass(self) -> None:
        """What the pass before this one read and wrote no longer counts."""
        self.said.clear()
        self.asked.clear()
        self.changed = False

    def forget(self) -> None:
        """Starts over with an empty store."""
        self.heap.clear()
        self.cells.clear()

    # -- attributes and elements ------------------------------------------------------------------
    def read_heap(self, owner: object, key: object) -> Values:
        self.asked.add((owner, key))
        table = self.heap.get(owner)
        return UNKNOWN if table is None else table.get(key, UNKNOWN)

    def read_attribute(self, owner: Instance, name: str) -> Values:
        """What is known to have been written to the attribute of `owner`, or else of other objects of its class."""
        return self.read_heap(owner.keeper, name) or self.read_heap(owner.cls, name)

    def held_by(self, owner: object) -> list[tuple[object, Values]]:
        """All that `owner` holds, each with its attribute, index or key."""
        self.asked.add(owner)
        return list(self.heap[owner].items()) if owner in self.heap else []

    def write_heap(self, owner: object, key: object, values: Values) -> None:
        if values and self._join(self.heap[owner], key, values) and ((owner, key) in self.asked or owner in self.asked):
            self.changed = True

    # -- variables --------------------------------------------------------------------------------
    def read_cell(self, scope: Scope, name: str) -> Values:
        cell = (scope, name)
        self.asked.add(cell)
        return self.cells.get(cell, UNKNOWN)

    def write_cell(self, scope: Scope, name: str, values: Values) -> None:
        cell = (scope, name)
        if self._join(self.cells, cell, values) and cell in self.asked:
            self.changed = True

    # -- both -------------------------------------------------------------------------------------
    def narrow(self) -> bool:
        """Forgets what the last pass did not write again: guesses of passes that knew less. Whether it read any of them."""
        read = self._narrow(self.cells, lambda key: key in self.asked)
        for owner, table in self.heap.items():
            read |= self._narrow(table, lambda key, owner=owner: owner in self.asked or (owner, key) in self.asked)
        return read

    def _narrow(self, table: dict, was_read: Callable[[object], bool]) -> bool:
        said = self.said.get(id(table), {})
        guesses = [key for key, values in table.items() if said.get(key) != values]
        if guesses:
            table.clear()
            table.update(said)
        return any(map(was_read, guesses))

    def _join(self, table: dict, key: object, values: Values) -> bool:
        """Whether `table` holds more under `key` than before."""
        said = self.said[id(table)]
        again = said.get(key, UNKNOWN)
        if not values <= again:
            said[key] = grown(again, values)
        old = table.get(key, UNKNOWN)
        if values <= old:
            return False  # what stands there is limited already
        new = grown(old, values)
        if new == old:
            return False
        table[key] = new
        return True
