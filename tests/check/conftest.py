"""Fixtures for the tests of the linter."""

from __future__ import annotations

from codemod.conftest import files

__all__ = ["files"]
