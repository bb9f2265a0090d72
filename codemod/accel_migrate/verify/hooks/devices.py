"""How many devices the interpreter sees."""

from __future__ import annotations


def count() -> int:
    """GPUs that torch can use here; asked in a fork of its own, since asking makes a process unfit for forking."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0
