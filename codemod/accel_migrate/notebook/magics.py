"""Lines of a cell that IPython understands and Python does not: hidden from the codemod, and put back unchanged.

`%magic`, `!command` and `name?` become calls of a name that no program has, on a line of their own; so does a cell whose
first line hands it to another language (`%%bash`). `%time` stands before a statement of Python, which stays. https://ipython.readthedocs.io/en/stable/interactive/magics.html
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence

_STAND_IN = "__ipython__"
_STANDING_IN = re.compile(rf"{_STAND_IN}\((\d+)\)")
_PYTHON_CELLS = {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun"}
"""Cell magics whose cell is Python."""
_MAGIC = re.compile(r"\s*(%{1,2}\w|!|\?{1,2}\w)")
_ASSIGNED = re.compile(r"(\s*[\w.\[\], ]+?\s*=\s*)([%!].*)", re.DOTALL)
_HELP = re.compile(r"\s*[\w.*%]+\?{1,2}\s*$")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_TIMED = re.compile(r"\s*(%time[ \t]+)(?=\S)")
_FUTURE = re.compile(r"from\s+__future__\s+import\b")


def hidden(cell: str, known: list[str]) -> str:
    """`cell` with IPython's lines replaced; what stood there is appended to `known`."""
    first = cell.lstrip().partition("\n")[0]
    if first.startswith("%%") and first[2:].partition(" ")[0] not in _PYTHON_CELLS:
        return _stand_in(cell, known)
    if _is_python(cell) and "__future__" not in cell:
        return cell
    return "".join(_hidden_line(line, known) for line in _logical_lines(cell))


def restored(text: str, known: Sequence[str]) -> str:
    """`text` with the lines that were hidden from it."""
    text = re.sub(rf"{_STAND_IN}\((\d+)\); ", lambda match: known[int(match[1])], text)
    return _STANDING_IN.sub(lambda match: known[int(match[1])], text)


def as_comments(text: str, known: Sequence[str]) -> str:
    """`text` for plain Python: what was hidden is a comment; an assigned one leaves its variable None."""
    lines = []
    for line in re.sub(rf"{_STAND_IN}\(\d+\); ", "", text).split("\n"):
        match = _STANDING_IN.search(line)
        if match is None:
            lines.append(line)
            continue
        indent, before, original = line[: len(line) - len(line.lstrip())], line[: match.start()], known[int(match[1])]
        if _FUTURE.match(original):
            lines.append(original)
            continue
        lines += [f"{indent}# {part}".rstrip() for part in original.split("\n")]
        if before.strip():
            lines.append(f"{before}None")
        elif indent:
            lines.append(f"{indent}pass")
    return "\n".join(lines)


def _hidden_line(line: str, known: list[str]) -> str:
    body = line.rstrip("\n")
    end = line[len(body) :]
    indent = body[: len(body) - len(body.lstrip())]
    assigned = _ASSIGNED.fullmatch(body)
    timed = _TIMED.match(body)
    if timed and _is_python(body[timed.end() :]):
        return f"{indent}{_stand_in(timed[1], known)}; {body[timed.end() :]}{end}"
    if _MAGIC.match(body) or _HELP.fullmatch(body) or _FUTURE.match(body):
        return indent + _stand_in(body[len(indent) :], known) + end
    if assigned:
        return assigned[1] + _stand_in(assigned[2], known) + end
    return line


def _stand_in(text: str, known: list[str]) -> str:
    known.append(text)
    return f"{_STAND_IN}({len(known) - 1})"


def _logical_lines(cell: str) -> Iterator[str]:
    """Python's statements, however many lines they take, and IPython's, which a backslash continues."""
    pending = ""
    for line in _LINE.findall(cell):
        pending += line
        special = _MAGIC.match(pending) or _ASSIGNED.fullmatch(pending.rstrip("\n")) or _HELP.fullmatch(pending)
        if not (pending.rstrip("\n").endswith("\\") if special else _is_open(pending)):
            yield pending
            pending = ""
    if pending:
        yield pending


def _is_open(text: str) -> bool:
    """Whether a bracket or a string that starts in `text` does not end in it."""
    try:
        for _ in tokenize.generate_tokens(io.StringIO(text.lstrip()).readline):
            pass
    except tokenize.TokenError:
        return True
    except (SyntaxError, IndentationError):
        return False
    return text.rstrip("\n").endswith("\\")


def _is_python(cell: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
