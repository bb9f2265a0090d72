"""How many devices the interpreter sees."""

from __future__ import annotations


def count() -> int:
    """GPUs that torch can use here; asked in a fork of its own, since asking makes a process unfit for forking."""
    try:
        import torch
    except ImportError:  # what the script says of it will be reported
        return 0
    return torch.cuda.device_count() if torch.cuda.is_available() else 0
