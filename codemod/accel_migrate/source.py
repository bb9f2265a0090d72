"""A Python file as it lies on disk: its text, and what is needed to write it back unchanged elsewhere."""

from __future__ import annotations

import ast
import codecs
import io
import re
import tokenize
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from accel_migrate.diagnose import syntax_error
from accel_migrate.errors import UserError
from accel_migrate.tree_index import TreeIndex

if TYPE_CHECKING:
    from accel_migrate.facts.scopes import Scope
    from accel_migrate.notebook.notebook import Notebook

_LINE_END = re.compile(r"\r\n|\r|\n")


PYTHON_SUFFIXES = {"", ".py", ".pyw", ".pyi", ".ipynb"}


@dataclass(frozen=True, eq=False)
class Source:
    """One file. `text` has `\\n` line ends only; `newline`, `encoding` and `bom` say how it was stored."""

    path: Path
    text: str
    encoding: str = "utf-8"
    newline: str = "\n"
    """The line end of most lines: what a new line gets."""
    bom: bool = False
    module: str = "__main__"
    """Dotted name under which project files import it."""
    is_package: bool = False
    """Whether it is an `__init__.py`, which shifts relative imports by one level."""
    line_ends: tuple[str, ...] = ()
    """The end of each line, where they are mixed; empty where every line ends with `newline`."""
    notebook: Notebook | None = None
    """The notebook whose code cells `text` is."""

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Every question and every edit is addressed by the nodes of this one tree."""
        return parse(self.text, str(self.path))

    @cached_property
    def index(self) -> TreeIndex:
        """The nodes of the tree, for questions about all of them."""
        return TreeIndex(self.tree, self.module)

    @cached_property
    def scopes(self) -> dict[ast.AST, Scope]:
        """The scope of every module, class and function node of the tree."""
        from accel_migrate.facts.scopes import build_scopes

        return build_scopes(self)

    def __getstate__(self) -> dict[str, object]:
        """Other processes parse it anew: a tree is larger than its text, and deep ones cannot be pickled."""
        return {name: value for name, value in self.__dict__.items() if name not in {"tree", "index", "scopes"}}

    def where(self, line: int) -> str:
        """The place of a line, as reports name it: `train.py:3`, `train.ipynb:cell 2:1`."""
        if self.notebook is None:
            return f"{self.path}:{line}"
        cell, inside = self.notebook.place(line)
        return f"{self.path}:cell {cell}:{inside}"

    @property
    def line_count(self) -> int:
        """Number of lines."""
        return self.text.count("\n") + (not self.text.endswith("\n"))


def parse(text: str, filename: str) -> ast.Module:
    """Parse without the interpreter's warnings about the user's string escapes.

    Raises what `ast.parse` raises: `SyntaxError`, `RecursionError`, `MemoryError`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, filename=filename)


def compiler_flags(source: Source) -> int:
    """What the place where `source` runs allows besides Python: notebooks wait at the top level."""
    return ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if source.notebook is not None else 0


def read_source(path: Path, module: str = "__main__") -> Source:
    """Read a Python file or a notebook, and make sure that it can be parsed and written back.

    Raises:
        UserError: the file is missing, no file, unreadable, no Python 3, or in an unknown encoding.
    """
    data = _read_bytes(path)
    source = _of_notebook(path, data, module) if path.suffix == ".ipynb" else _of_file(path, data, module)
    _check_syntax(source)
    return source


def _of_notebook(path: Path, data: bytes, module: str) -> Source:
    from accel_migrate.notebook.notebook import read_notebook

    notebook = read_notebook(path, data)
    return Source(path, notebook.text, module=module, notebook=notebook)


def _of_file(path: Path, data: bytes, module: str) -> Source:
    encoding, bom = _encoding(data, path)
    stored = _decode(data, encoding, bom, path)
    ends = _LINE_END.findall(stored)
    newline = Counter(ends).most_common(1)[0][0] if ends else "\n"
    return Source(
        path=path,
        text=_LINE_END.sub("\n", stored),
        encoding=encoding,
        newline=newline,
        bom=bom,
        module=module,
        is_package=path.name == "__init__.py",
        line_ends=tuple(ends) if len(set(ends)) > 1 else (),
    )


def _read_bytes(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a directory, a Python file was expected")
        if path.exists() and not path.is_file():
            raise UserError(f"{path}: is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except PermissionError:
        raise UserError(f"{path}: cannot be read: permission denied") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _encoding(data: bytes, path: Path) -> tuple[str, bool]:
    """The encoding by PEP 263, and whether there is a byte order mark."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UserError(f"{path}: is not UTF-8 but UTF-16; save it as UTF-8")
    if 0 in data:
        raise UserError(f"{path}:{data[: data.index(0)].count(10) + 1}: contains a null byte; this is not Python source")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if "unknown encoding" in str(error):
            raise UserError(f"{path}: declares an {error}") from None
        raise _not_utf8(data, path) from None
    return ("utf-8", True) if encoding == "utf-8-sig" else (encoding, False)


def _decode(data: bytes, encoding: str, bom: bool, path: Path) -> str:
    body = data.removeprefix(codecs.BOM_UTF8) if bom else data
    try:
        text = body.decode(encoding)
        if text.encode(encoding) == body:
            return text
    except UnicodeError:
        if encoding == "utf-8":
            raise _not_utf8(data, path) from None
        raise UserError(f"{path}: is not in the encoding {encoding!r} which it declares") from None
    except (LookupError, ValueError):
        pass
    raise UserError(f"{path}: the encoding {encoding!r} which it declares cannot be written back; save it as UTF-8")


def _not_utf8(data: bytes, path: Path) -> UserError:
    try:
        data.decode("utf-8")
        return UserError(f"{path}: has a UTF-8 byte order mark but declares another encoding; remove one of the two")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        advice = "save it as UTF-8 or declare its encoding (# -*- coding: ... -*-)"
        return UserError(f"{path}:{line}: is not UTF-8 (byte 0x{data[error.start]:02x}); {advice}")


def _check_syntax(source: Source) -> None:
    """Compiling finds what parsing lets through, such as `return` outside a function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source.tree, str(source.path), "exec", flags=compiler_flags(source), dont_inherit=True)
    except SyntaxError as error:
        if source.path.suffix not in PYTHON_SUFFIXES:
            raise UserError(f"{source.path}: not a Python file: its name ends in {source.path.suffix}") from None
        raise syntax_error(source.where(error.lineno or 1), source.text, error) from None
    except (RecursionError, MemoryError):
        raise UserError(f"{source.path}: is too deeply nested for Python's compiler; split the expression") from None
    except ValueError as error:
        raise UserError(f"{source.path}: cannot be parsed: {error}") from None
