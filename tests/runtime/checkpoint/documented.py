"""The program in docs/checkpoints.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "checkpoints.md"


def program() -> str:
    """The program as the page shows it."""
    found = re.search(r'```python\n("""train\.py""".*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]
