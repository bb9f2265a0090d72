"""Places of the store: what stands there, and what the running pass did to them."""

from __future__ import annotations

from accel_migrate.facts.values import UNKNOWN, Values

Place = tuple[object, object]
"""An owner and its attribute, index or key; a scope and its variable."""


class Slot:
    """One place."""

    __slots__ = ("asked", "passed", "said", "values")

    def __init__(self) -> None:
        self.values: Values = UNKNOWN
        self.said: Values = UNKNOWN
        """What pass `passed` wrote there."""
        self.passed = self.asked = 0
        """The numbers of the last passes that wrote and read it."""


class Places(dict[Place, Slot]):
    """Slots by place, made when they are first asked for."""

    def __missing__(self, place: Place) -> Slot:
        slot = self[place] = Slot()
        return slot


class Slots:
    """All places."""

    def __init__(self) -> None:
        self.heap = Places()
        self.cells = Places()
        self.number = 0
        """That of the running pass."""

    def empty(self) -> None:
        """Nothing stands anywhere."""
        for places in (self.heap, self.cells):
            for slot in places.values():
                slot.values = UNKNOWN
