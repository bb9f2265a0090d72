"""Imports added where isort would put them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from accel_migrate.edits import AddImport
from accel_migrate.rewrite.blocks import Line, blanks_of, is_blank
from accel_migrate.rewrite.precedence import code
from accel_migrate.rewrite.separated import inserted

_WIDTH = 88


def with_imports(module: cst.Module, edits: Sequence[AddImport]) -> cst.Module:
    """`module` with the imports that `edits` ask for, as far as it lacks them."""
    wanted: dict[str, dict[str, None]] = {}
    for edit in edits:
        if edit.names:
            wanted.setdefault(edit.module, {}).update(dict.fromkeys(edit.names))
        else:
            module = _with_plain(module, edit.module)
    for name, names in wanted.items():
        module = _with_names(module, name, list(names))
    return module


def _with_plain(module: cst.Module, name: str) -> cst.Module:
    for line in module.body:
        for small in getattr(line, "body", ()) if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Import) and any(_dotted(a.name) == name and not a.asname for a in small.names):
                return module
    return _placed(module, f"import {name}", _Key(False, name))


def _with_names(module: cst.Module, name: str, names: list[str]) -> cst.Module:
    existing = [small for line in module.body for small in _from_imports(line) if _module_of(small) == name]
    present = {_dotted(a.name) for small in existing for a in small.names if not a.asname}  # type: ignore[union-attr]
    missing = [wanted for wanted in names if wanted not in present]
    if not missing:
        return module
    if not existing:
        return _placed(module, _statement(name, sorted(missing, key=_name_order), module), _Key(True, name))
    target, merged = existing[0], existing[0]
    for wanted in missing:
        merged = _merged(merged, wanted)
    return module.with_changes(body=[_swapped(line, target, merged) for line in module.body])


def _from_imports(line: cst.CSTNode) -> list[cst.ImportFrom]:
    smalls = line.body if isinstance(line, cst.SimpleStatementLine) else ()
    return [
        small for small in smalls if isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar)
    ]


def _swapped(line: Line, old: cst.ImportFrom, new: cst.ImportFrom) -> Line:
    if not isinstance(line, cst.SimpleStatementLine) or old not in line.body:
        return line
    return line.with_changes(body=[new if small is old else small for small in line.body])


def _statement(name: str, names: Sequence[str], module: cst.Module) -> str:
    one_line = f"from {name} import {', '.join(names)}"
    if len(one_line) <= _WIDTH:
        return one_line
    rows = "".join(f"{module.default_indent}{wanted},\n" for wanted in names)
    return f"from {name} import (\n{rows})"


def _merged(statement: cst.ImportFrom, name: str) -> cst.ImportFrom:
    aliases: list[cst.ImportAlias] = list(statement.names)  # type: ignore[arg-type]
    orders = [_name_order(_dotted(alias.name)) for alias in aliases]
    index = len(aliases)
    if orders == sorted(orders):
        index = sum(1 for order in orders if order < _name_order(name))
    opening = statement.lpar.whitespace_after if statement.lpar else cst.SimpleWhitespace("")
    return statement.with_changes(names=inserted(aliases, index, cst.ImportAlias(cst.Name(name)), opening))


def _name_order(name: str) -> tuple[int, str]:
    """isort's `order_by_type`: constants, then classes, then the rest."""
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2
    return kind, name.lower()


@dataclass(frozen=True, order=True)
class _Key:
    """isort's place of an import within its section: `import x` before `from x import`, then by module."""

    is_from: bool
    module: str


@dataclass(frozen=True)
class _Entry:
    index: int
    key: _Key
    section: int
    """0 standard library, 1 installed packages, 2 relative."""


def _placed(module: cst.Module, text: str, key: _Key) -> cst.Module:
    line = cst.parse_statement(text)
    assert isinstance(line, cst.SimpleStatementLine)
    body = list(module.body)
    runs = _import_runs(body)
    run = _import_run(runs)
    standard = _section(key.module) == 0
    block = _standard_block(body, runs[: runs.index(run) + 1]) if standard else _third_party_block(body, run)
    if block:
        return module.with_changes(body=_into_block(body, block, key, line))
    ends_line = module.has_trailing_newline or not body
    on_top = standard and run
    made = _on_top(body, run[0].index, line) if on_top else _as_block(body, run, line, bool(module.header))
    return module.with_changes(body=made, has_trailing_newline=ends_line)


def _entry(index: int, line: cst.CSTNode) -> _Entry | None:
    """The import that stands alone on `line`."""
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.Import | cst.ImportFrom):
        return None
    small = line.body[0]
    if isinstance(small, cst.Import):
        name = _dotted(small.names[0].name)
        return _Entry(index, _Key(False, name), _section(name))
    name = _module_of(small)
    return None if name == "__future__" else _Entry(index, _Key(True, name), _section(name))


def _section(module: str) -> int:
    if module.startswith("."):
        return 2
    return 0 if module.partition(".")[0] in sys.stdlib_module_names else 1


def _import_runs(body: Sequence[cst.CSTNode]) -> list[list[_Entry]]:
    """Runs of imports; at most docstring, `try` and `if` statements may stand between the imports of one run."""
    runs: list[list[_Entry]] = [[]]
    for index, line in enumerate(body):
        entry = _entry(index, line)
        if entry:
            runs[-1].append(entry)
        elif runs[-1] and not isinstance(line, cst.Try | cst.If):
            runs.append([])
    return runs


def _import_run(runs: Sequence[list[_Entry]]) -> list[_Entry]:
    """The first run that has an installed package in it, else the first run."""
    return next((run for run in runs if any(entry.section == 1 for entry in run)), runs[0])


def _third_party_block(body: Sequence[cst.CSTNode], run: Sequence[_Entry]) -> list[_Entry]:
    """The installed packages' imports of one block between blank lines, that of torch if there is one."""
    candidates = _blocks(body, run, 1)
    with_torch = [b for b in candidates if any(e.key.module.partition(".")[0] == "torch" for e in b)]
    return next(iter([*with_torch, *candidates]), [])


def _standard_block(body: Sequence[cst.CSTNode], runs: Sequence[Sequence[_Entry]]) -> list[_Entry]:
    """The standard library's imports of the first block that has such."""
    return next((block for run in runs for block in _blocks(body, run, 0)), [])


def _blocks(body: Sequence[cst.CSTNode], run: Sequence[_Entry], section: int) -> list[list[_Entry]]:
    """The imports of a section in each block between blank lines that has such."""
    blocks: list[list[_Entry]] = []
    for entry in run:
        leading = body[entry.index].leading_lines  # type: ignore[attr-defined]
        adjacent = blocks and blocks[-1][-1].index == entry.index - 1
        if not adjacent or any(map(is_blank, leading)):
            blocks.append([])
        blocks[-1].append(entry)
    chosen = [[entry for entry in block if entry.section == section] for block in blocks]
    return [block for block in chosen if block]


def _into_block(body: list[Line], block: Sequence[_Entry], key: _Key, line: cst.SimpleStatementLine) -> list[Line]:
    order = _by_module if _interleaved(block) else _by_kind
    following = next((entry for entry in block if order(entry.key) > order(key)), None)
    if following is None:
        at = block[-1].index + 1
        return [*body[:at], line, *body[at:]]
    at = following.index
    head = line.with_changes(leading_lines=body[at].leading_lines)  # type: ignore[union-attr]
    return [*body[:at], head, body[at].with_changes(leading_lines=()), *body[at + 1 :]]


def _by_module(key: _Key) -> tuple[object, ...]:
    return (key.module.lower(),)


def _by_kind(key: _Key) -> tuple[object, ...]:
    return key.is_from, key.module.lower()


def _interleaved(block: Sequence[_Entry]) -> bool:
    kinds = [entry.key.is_from for entry in block]
    return kinds != sorted(kinds)


def _on_top(body: list[Line], at: int, line: cst.SimpleStatementLine) -> list[Line]:
    """A block of its own above the imports at `at`, whose comments stay with them."""
    leading = tuple(body[at].leading_lines)  # type: ignore[union-attr]
    blanks = blanks_of(leading)
    below = body[at].with_changes(leading_lines=(cst.EmptyLine(indent=False), *leading[len(blanks) :]))
    return [*body[:at], line.with_changes(leading_lines=blanks), below, *body[at + 1 :]]


def _as_block(body: list[Line], run: Sequence[_Entry], line: cst.SimpleStatementLine, has_header: bool) -> list[Line]:
    """A block of its own: behind the standard library's imports, else below docstring and `__future__`."""
    before = [entry.index + 1 for entry in run if entry.section < 2]
    at = before[-1] if before else _preamble(body)
    blank = cst.EmptyLine(indent=False)
    head = line.with_changes(leading_lines=(blank,) if at or has_header else ())
    rest = body[at:]
    if rest and not blanks_of(tuple(rest[0].leading_lines)):  # type: ignore[union-attr]
        rest[0] = rest[0].with_changes(leading_lines=(blank, *rest[0].leading_lines))  # type: ignore[union-attr]
    return [*body[:at], head, *rest]


def _preamble(body: Sequence[cst.CSTNode]) -> int:
    """How many statements must stay on top."""
    at = 0
    for index, line in enumerate(body):
        if _is_future(line) or (index == 0 and _is_docstring(line)):
            at = index + 1
    return at


def _is_docstring(line: cst.CSTNode) -> bool:
    small = line.body[0] if isinstance(line, cst.SimpleStatementLine) else None
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString | cst.ConcatenatedString)


def _is_future(line: cst.CSTNode) -> bool:
    return any(_module_of(small) == "__future__" for small in _from_imports(line))


def _module_of(statement: cst.ImportFrom) -> str:
    return "." * len(statement.relative) + (_dotted(statement.module) if statement.module else "")


def _dotted(name: cst.BaseExpression) -> str:
    return code(name)
