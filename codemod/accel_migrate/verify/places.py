"""What the code around the lines says at which processes stand apart: branches for some processes, loops that were left."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

_RANKS = re.compile(r"\b(is_(local_|last_)?(main_)?process|is_main|is_master|(local_)?process_index|(local_)?rank|get_rank|RANK)\b")


def line_text(file: Path, line: int) -> str:
    """The line without its indentation; empty where it cannot be read."""
    lines = _lines(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def branch_for_some(file: Path, line: int) -> tuple[int, str] | None:
    """The innermost `if` around `line` that asks which process this is: its line and condition."""
    found = None
    for node in _nodes(file, (ast.If,)):
        if any(_holds(part, line) for part in [*node.body, *node.orelse]) and _RANKS.search(ast.unparse(node.test)):
            found = node.lineno, ast.unparse(node.test)
    return found


def loop_left(file: Path, inside: int, outside: int) -> int:
    """The line of the innermost loop which holds the line `inside`, while `outside` comes after it; 0 if there is none."""
    loops = [node for node in _nodes(file, (ast.For, ast.While)) if _holds(node, inside) and (node.end_lineno or 0) < outside]
    return loops[-1].lineno if loops else 0


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _nodes(file: Path, kinds: tuple[type[ast.AST], ...]) -> Sequence[ast.If | ast.For | ast.While]:
    """Statements of these kinds, outer ones first."""
    try:
        tree = ast.parse("\n".join(_lines(file)))
    except (SyntaxError, ValueError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]  # type: ignore[misc]


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
