"""Fixtures for the tests of the codemod."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Files = Callable[[dict[str, str]], Path]
"""Writes files, given as path -> text, and returns the folder which holds them."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Write files into a fresh folder, which becomes the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "ACCEL_MIGRATE_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def make(texts: dict[str, str]) -> Path:
        for name, text in texts.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return make
