"""What a script imports and this interpreter does not have."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from .finding import FAIL, OK, Finding
from .known_errors import distribution


def findings(path: Path, source: str) -> list[Finding]:
    """One finding for each package that `source`, the file at `path`, imports and that is not there.

    Imports inside `try` are left out: the script gets along without them.

    Raises:
        SyntaxError: `source` is not Python.
    """
    here = {entry.stem for entry in path.parent.iterdir() if entry.suffix == ".py" or entry.is_dir()}
    missing = [name for name in sorted(set(_imported(ast.parse(source)))) if name not in here and not _there(name)]
    if not missing:
        return [Finding(OK, f"everything that {path} imports is there")]
    return [
        Finding(FAIL, f"{path} imports {name}, which is not installed", f"python -m pip install {distribution(name)}")
        for name in missing
    ]


def _imported(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and not child.level and child.module:
            yield child.module.partition(".")[0]
        elif not isinstance(child, ast.Try):
            yield from _imported(child)


def _there(name: str) -> bool:
    if name in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
