"""`get_logger`: a standard logger which by default speaks on the main process only.

>>> logger = get_logger(__name__)
>>> logger.info("once")
>>> logger.info("on every process", main_process_only=False)
>>> logger.info("on every process, in rank order", in_order=True)
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import Any

from . import world as worlds
from .collectives import barrier


class MultiProcessAdapter(logging.LoggerAdapter):  # type: ignore[type-arg]
    """A logger whose methods take `main_process_only` (default True) and `in_order` (default False).

    Messages for several processes begin with `[RANK i]`. With `in_order=True` every process has to make the call, since
    they wait for each other. Works before an `Accelerator` is made, too: the launcher's environment tells the rank.
    """

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        """Log `msg` at `level` on the processes that should speak."""
        in_order = kwargs.pop("in_order", False)
        main_only = kwargs.pop("main_process_only", True) and not in_order
        if not self.isEnabledFor(level):
            return
        world, rank = worlds.current(), worlds.rank()
        msg, kwargs = self.process(msg, kwargs)  # type: ignore[assignment]
        if not main_only and world is not None and world.size > 1:
            msg = f"[RANK {rank}] {msg}"
        turns = range(world.size) if in_order and world is not None else [0 if main_only else rank]
        for turn in turns:  # the call below stays in this function: the stack level is counted from here
            if turn == rank:
                self.logger.log(level, msg, *args, **kwargs)
            if in_order and world is not None:
                barrier(world)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Make the record name the caller's line instead of this module's."""
        kwargs.setdefault("stacklevel", 2)
        return msg, kwargs

    def warning_once(self, msg: object, *args: Any, **kwargs: Any) -> None:
        """`warning`, the first time only that it is called with these arguments."""
        call = (str(msg), args, tuple(sorted(kwargs.items())))
        if call not in _warned:
            _warned.add(call)
            self.warning(msg, *args, stacklevel=3, **kwargs)


_warned: set[Any] = set()


def get_logger(name: str, log_level: str | None = None) -> MultiProcessAdapter:
    """Return the logger `name`, speaking on the main process unless a call says otherwise.

    Args:
        name: usually `__name__`.
        log_level: e.g. "INFO"; default: the environment variable ACCELERATE_LOG_LEVEL, else left alone.
    """
    logger = logging.getLogger(name)
    level = log_level or os.environ.get("ACCELERATE_LOG_LEVEL")
    if level is not None:
        logger.setLevel(level.upper())
        logger.root.setLevel(level.upper())
    return MultiProcessAdapter(logger, {})
