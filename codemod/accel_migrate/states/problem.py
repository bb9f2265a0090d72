"""Why a script's checkpoints keep their format."""

from __future__ import annotations

import ast


class Unconvertible(Exception):
    """Something about a script's checkpoints that a saved state cannot stand for.

    Attributes:
        node: where.
        advice: what to write.
    """

    def __init__(self, node: ast.AST, message: str, advice: str) -> None:
        super().__init__(message)
        self.node = node
        self.advice = advice
