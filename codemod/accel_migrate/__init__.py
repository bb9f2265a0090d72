"""Turn a single-GPU PyTorch script into a multi-process one that trains the same."""

__version__ = "0.1.0"
