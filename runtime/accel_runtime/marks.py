"""`_is_accelerate_prepared`, by which scripts and libraries recognise what went through `prepare`.

The answer is kept beside the objects: what is copied, pickled or saved looks as it did before.
"""

from __future__ import annotations

import weakref
from typing import Any

NAME = "_is_accelerate_prepared"
_prepared: weakref.WeakSet[Any] = weakref.WeakSet()


class _Mark:
    """True for the very objects that were prepared; an attribute which someone else sets goes before it."""

    def __get__(self, instance: Any, owner: type) -> bool:
        return instance is not None and instance in _prepared


def mark(item: Any) -> None:
    """Let `item` say that it is prepared."""
    _prepared.add(item)
    if not hasattr(type(item), NAME):
        setattr(type(item), NAME, _Mark())
