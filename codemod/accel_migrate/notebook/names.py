"""What a notebook has and a script lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.source import Source

_ONLY_THERE = {
    "display": "from IPython.display import display",
    "get_ipython": "from IPython import get_ipython",
}


def missing_names(source: Source) -> Iterator[str]:
    """A note for each name which only notebooks have without an import."""
    bound = {alias.asname or alias.name for node in ast.walk(source.tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    seen: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in _ONLY_THERE and node.id not in bound | seen:
            seen.add(node.id)
            yield f"{source.where(node.lineno)}: a script has no {node.id}(): write {_ONLY_THERE[node.id]}"
