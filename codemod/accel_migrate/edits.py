"""What rules say: edits, addressed by `ast` nodes of a `Source`, and findings for a person.

A *template* is Python text with `{name}` placeholders; each placeholder stands for a node of the original file and is
filled with that node as the other edits left it, comments and formatting included. `{{` and `}}` are literal braces.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from accel_migrate.source import Source


@dataclass(frozen=True)
class Inner:
    """A placeholder's node *without* the edit that replaces the node itself (edits inside it still apply).

    Needed where a node moves: `f(net(x))` becomes `out = gather(net(x))` above and `f(out)` here.
    """

    node: ast.AST


Parts = Mapping[str, "ast.AST | Inner"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Edit:
    """A change of one file. `rule` and `why` go into the report."""

    source: Source
    rule: str
    why: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplaceExpression(Edit):
    """`node` becomes the expression `template`."""

    node: ast.expr
    template: str
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplaceStatement(Edit):
    """The statement `node` becomes the statements of `template` (may be several lines, or compound)."""

    node: ast.stmt
    template: str
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class DeleteStatement(Edit):
    """`node` goes; comment lines above it stay, a comment behind it goes. An emptied block gets `pass`; an emptied
    `if`/`for`/`with` whose whole body was deleted stays with `pass` (a rule that wants it gone deletes it)."""

    node: ast.stmt
    with_comment: bool = False
    """Whether the comment lines right above it go too."""


@dataclass(frozen=True, kw_only=True, eq=False)
class InsertBefore(Edit):
    """The statements of `template` go right before the statement `node`, below the comment lines above `node`'s block
    of code only if `below_comments`."""

    node: ast.stmt
    template: str
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class InsertAfter(Edit):
    """The statements of `template` go right after the statement `node`."""

    node: ast.stmt
    template: str
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class WrapStatements(Edit):
    """The adjacent sibling statements `nodes` go, indented one level deeper, under `header` (e.g.
    `if accelerator.is_main_process:` or `with accelerator.accumulate({model}):`)."""

    nodes: tuple[ast.stmt, ...]
    header: str
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class UnwrapStatement(Edit):
    """The compound statement `node` (a `with` or an `if`) is replaced by its body, or by what stands in its `else`, one
    level up."""

    node: ast.With | ast.If
    branch: Literal["body", "orelse"] = "body"


@dataclass(frozen=True, kw_only=True, eq=False)
class DropElse(Edit):
    """The `else` (or `elif`) of `node` goes with everything in it."""

    node: ast.If


@dataclass(frozen=True, kw_only=True, eq=False)
class AddArgument(Edit):
    """A call or class header gets one more argument at its end (before `*args`/`**kwargs` where needed);
    `keyword` None means positional, which goes after the last positional one."""

    node: ast.Call
    value: str
    keyword: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RemoveArgument(Edit):
    """The argument whose value is `argument` (positional or keyword) is dropped from the call `node`."""

    node: ast.Call
    argument: ast.expr


@dataclass(frozen=True, kw_only=True, eq=False)
class AddParameter(Edit):
    """The function gets the parameter `name` after its last positional parameter without default (or, with `default`,
    after its last positional parameter; before `*args`, `*` and `**kwargs`)."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    name: str
    default: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class RemoveParameter(Edit):
    """The positional parameter `parameter` of `node` goes, its default too (arguments are other edits)."""

    node: ast.FunctionDef | ast.AsyncFunctionDef
    parameter: ast.arg


@dataclass(frozen=True, kw_only=True, eq=False)
class RenameParameter(Edit):
    """The parameter `parameter` gets another name; its annotation and default go (uses are other edits)."""

    parameter: ast.arg
    name: str


@dataclass(frozen=True, kw_only=True, eq=False)
class AddImport(Edit):
    """`from module import names` (or `import module` where `names` is empty), merged into an equal import if there is
    one, otherwise placed where isort would put it among the top-level imports; never above a docstring or
    `from __future__`."""

    module: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class DropImportIfUnused(Edit):
    """The name bound by an import goes if, after all other edits, nothing in the file reads it any more."""

    name: str


class Severity(str, Enum):
    """`error`: wrong or hanging on several processes as it stands; `warning`: probably; `info`: worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, kw_only=True, eq=False)
class Finding:
    """Something left to a person: where, which rule, what happens on N processes, what to write instead."""

    source: Source
    node: ast.AST
    """Gives the line; a `Module` node means the file as a whole (line 1)."""
    rule: str
    message: str
    advice: str = ""
    severity: Severity = Severity.WARNING
