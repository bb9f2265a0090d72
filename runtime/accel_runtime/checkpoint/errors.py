"""What can be wrong with a checkpoint, in one line."""

from __future__ import annotations


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written or read; the message names the file and says what to do."""
