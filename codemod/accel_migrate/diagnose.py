"""Say what a syntax error is: often a whole other language, Python 2."""

from __future__ import annotations

import re

from accel_migrate.errors import UserError

_PYTHON_2 = (
    ("a print statement", re.compile(r"""^\s*print\s+(?:["'\w%(]|>>)""")),
    ("an exec statement", re.compile(r"""^\s*exec\s+["'\w]""")),
    ("an `except X, e` clause", re.compile(r"^\s*except\s+[\w.]+\s*,\s*\w+\s*:")),
    ("an `except (X, Y), e` clause", re.compile(r"^\s*except\s*\([^)]*\)\s*,\s*\w+\s*:")),
    ("a `raise X, message` statement", re.compile(r"^\s*raise\s+[\w.]+\s*,")),
    ("the operator `<>`", re.compile(r"\s<>\s")),
    ("an octal number such as 0777", re.compile(r"(?<![\w.])0\d*[1-9]\d*(?![\w.])")),
    ("a long number such as 1L", re.compile(r"(?<![\w.])\d+[lL](?!\w)")),
    ("a `ur''` string", re.compile(r"""(?<!\w)[uU][rR]["']""")),
    ("backticks", re.compile(r"`[^`]+`")),
)


def syntax_error(where: str, text: str, error: SyntaxError) -> UserError:
    """One line with the place `where` and what is wrong there."""
    line_number = error.lineno or 1
    idiom = _python_2_idiom(text, line_number)
    if idiom:
        return UserError(f"{where}: is Python 2 ({idiom}); convert it to Python 3 first, for example with 2to3")
    message = " ".join((error.msg or "invalid syntax").split())
    return UserError(f"{where}: syntax error: {message}")


def _python_2_idiom(text: str, line_number: int) -> str:
    """What on the line is Python 2, or an empty string."""
    lines = text.split("\n")
    line = lines[line_number - 1] if line_number <= len(lines) else ""
    return next((name for name, pattern in _PYTHON_2 if pattern.search(line)), "")
