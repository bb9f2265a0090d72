"""What the code around the lines says at which processes stand apart: branches for some processes, loops that were left."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

from accel_migrate.verify.job import OF_NOTEBOOK, shown

_RANKS = re.compile(r"\b(is_(local_|last_)?(main_)?process|is_main|is_master|(local_)?process_index|(local_)?rank|get_rank|RANK)\b")

_CELL = re.compile(r"# %% cell (\d+)")


def line_text(file: Path, line: int) -> str:
    """The line without its indentation; empty where it cannot be read."""
    lines = _lines(file)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def spot(folder: Path, file: str, line: int) -> str:
    """A place as reports name it: `train.py:3`, `train.ipynb:cell 2:1`."""
    return f"{shown(file)}:{_in_cell(folder / file, line) or line}"


def named_line(file: Path, line: int) -> str:
    """`line 3`, `line cell 2:1` of a notebook."""
    return f"line {_in_cell(file, line) or line}"


def _in_cell(file: Path, line: int) -> str:
    """Cell and line in it, in the script of a notebook; empty for other files."""
    if not file.name.endswith(OF_NOTEBOOK):
        return ""
    marks = [(number, mark) for number, text in enumerate(_lines(file)[:line], 1) if (mark := _CELL.fullmatch(text))]
    return f"cell {marks[-1][1][1]}:{line - marks[-1][0]}" if marks else ""


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
