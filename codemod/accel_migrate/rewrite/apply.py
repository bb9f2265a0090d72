"""The one pass that applies edits to a libcst module."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import libcst as cst

from accel_migrate.edits import (
    AddArgument,
    AddImport,
    AddParameter,
    DeleteStatement,
    DropElse,
    Edit,
    Inner,
    InsertAfter,
    InsertBefore,
    RemoveArgument,
    RemoveParameter,
    RenameParameter,
    ReplaceExpression,
    ReplaceStatement,
    UnwrapStatement,
    WrapStatements,
)
from accel_migrate.rewrite import signatures, templates
from accel_migrate.rewrite.blocks import indentable, lines_of
from accel_migrate.rewrite.conflicts import parts, targets
from accel_migrate.rewrite.fstrings import adapted_string
from accel_migrate.rewrite.imports import with_imports
from accel_migrate.rewrite.precedence import ATOM, code, fit, parenthesise, strength
from accel_migrate.rewrite.resolve import Twins
from accel_migrate.rewrite.separated import removed
from accel_migrate.rewrite.statements import BlockEditor, StatementEdits, Wrap
from accel_migrate.rewrite.unused import Unused
from accel_migrate.source import Source

_E = TypeVar("_E", bound=Edit)


def apply(tree: ast.Module, module: cst.Module, edits: Sequence[Edit]) -> cst.Module:
    """`module` with all `edits`, which name nodes of `tree`, the syntax tree of the same text.

    Raises LookupError for a node that is not of `tree`.
    """
    try:
        return _Pass(tree, module, edits, cautious=False).run()
    except cst.CSTValidationError:
        pass  # two words would touch where brackets stood between them: keep these
    try:
        return _Pass(tree, module, edits, cautious=True).run()
    except cst.CSTValidationError as error:
        raise AssertionError(f"the edits do not make valid Python: {error}") from error


@dataclass(frozen=True, kw_only=True, eq=False)
class _DropAlias(Edit):
    """One name goes from an import of several."""

    node: ast.alias


def without_imports(source: Source, tree: ast.Module, module: cst.Module, unused: Unused) -> cst.Module:
    """`module`, whose syntax tree is `tree`, without the `unused` imports."""
    whole = [DeleteStatement(source=source, rule="", node=node) for node in unused.statements]
    single = [_DropAlias(source=source, rule="", node=node) for node in unused.aliases]
    return apply(tree, module, [*whole, *single])


class _Pass(cst.CSTTransformer):
    """Descends only towards edited nodes; a node's edits are functions of the node as its own children left it."""

    def __init__(self, tree: ast.Module, module: cst.Module, edits: Sequence[Edit], cautious: bool) -> None:
        super().__init__()
        self._module = module
        self._cautious = cautious
        self._twins = Twins(tree, module, [node for edit in edits for node in targets(edit) + _mentioned(edit)])
        self._edits: dict[cst.CSTNode, list[Edit]] = defaultdict(list)
        self._imports = [edit for edit in edits if isinstance(edit, AddImport)]
        self._wraps: list[Wrap] = []
        self._statements: dict[cst.CSTNode, StatementEdits] = defaultdict(StatementEdits)
        self._blocks: set[cst.CSTNode] = set()
        self._touched: set[cst.CSTNode] = {module}
        self._inner: dict[cst.CSTNode, Any] = {}
        self._done: dict[cst.CSTNode, Any] = {}
        self._active: set[cst.CSTNode] = set()
        self._placed = templates.Placed()
        for edit in edits:
            self._register(edit)
        self._editor = BlockEditor(self._statements, self._wraps, self._filler, module.default_indent)

    def run(self) -> cst.Module:
        return self._module.visit(self)  # type: ignore[return-value]

    def _register(self, edit: Edit) -> None:
        for node in targets(edit):
            twin = self._twins[node]
            path = self._twins.path_to(twin)
            self._touched.update(path)
            self._edits[twin].append(edit)
            if isinstance(edit, (*_OF_STATEMENTS, WrapStatements)):
                self._blocks.add(path[2] if isinstance(path[1], cst.SimpleStatementLine) else path[1])
        if isinstance(edit, WrapStatements):
            self._wraps.append(Wrap(edit, self._twins[edit.nodes[0]], self._twins[edit.nodes[-1]]))
        elif isinstance(edit, _OF_STATEMENTS):
            _record(self._statements[self._twins[edit.node]], edit)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if node not in self._touched or node in self._done:
            return False
        assert node not in self._active, "a template's part contains the node that the template replaces"
        self._active.add(node)
        return True

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> Any:
        if original in self._done:
            return self._done[original]
        if original not in self._touched:
            return updated
        self._active.discard(original)
        updated = self._own_edits(original, self._placed.settle(updated))
        self._inner[original] = updated
        self._done[original] = self._replaced(original, updated)
        return self._done[original]

    def _own_edits(self, original: cst.CSTNode, updated: Any) -> Any:
        if isinstance(original, cst.Call):
            return self._call(original, updated)
        if isinstance(original, cst.FunctionDef):
            updated = self._parameters(original, updated)
        elif isinstance(original, cst.ClassDef) and (added := self._of(original, AddArgument)):
            updated = signatures.edited_class(updated, added)
        elif isinstance(original, cst.Param):
            for rename in self._of(original, RenameParameter):
                needs_default = signatures.follows_default(original, self._twins.path_to(original)[1])  # type: ignore[arg-type]
                updated = signatures.renamed_parameter(updated, rename.name, needs_default)
        elif isinstance(original, cst.Import | cst.ImportFrom):
            updated = self._import(original, updated)
        elif isinstance(original, cst.FormattedString):
            updated = adapted_string(original, updated)
        elif isinstance(original, cst.If) and self._of(original, DropElse):
            updated = updated.with_changes(orelse=None)
        return self._block(original, updated)

    def _of(self, original: cst.CSTNode, kind: type[_E]) -> list[_E]:
        return [edit for edit in self._edits.get(original, ()) if isinstance(edit, kind)]

    def _parameters(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        positional = [*original.params.posonly_params, *original.params.params]
        gone = [positional.index(self._twins[edit.parameter]) for edit in self._of(original, RemoveParameter)]  # type: ignore[arg-type]
        for place in sorted(gone, reverse=True):
            updated = signatures.without_parameter(updated, place)
        for parameter in self._of(original, AddParameter):
            updated = signatures.with_parameter(updated, parameter)
        return updated

    def _call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        gone = [self._twins[edit.argument] for edit in self._of(original, RemoveArgument)]
        places = [index for index, arg in enumerate(original.args) if arg in gone or arg.value in gone]
        added = self._of(original, AddArgument)
        return signatures.edited_call(updated, places, added) if places or added else updated

    def _import(self, original: Any, updated: Any) -> Any:
        if isinstance(original.names, cst.ImportStar):
            return updated
        names = list(updated.names)
        for index in reversed(range(len(names))):
            if self._of(original.names[index], _DropAlias):
                names = removed(names, index)
        return updated.with_changes(names=names) if len(names) < len(original.names) else updated

    def _replaced(self, original: cst.CSTNode, updated: Any) -> Any:
        edits = self._of(original, ReplaceExpression)
        if not edits:
            return updated
        edit = edits[0]
        new = templates.expression(edit.template, self._filler(edit))
        if isinstance(original, cst.Arg):
            return updated.with_changes(star="", value=fit(updated.with_changes(star=""), "value", new))
        if isinstance(original, cst.StarredElement):
            element = cst.Element(new, comma=original.comma)
            return element.with_changes(value=fit(element, "value", new))
        return self._placed.put(self._in_brackets_of(original, new))

    def _in_brackets_of(self, original: Any, new: cst.BaseExpression) -> cst.BaseExpression:
        """The original's parentheses stay where layout or grammar want them."""
        if original.lpar and (self._cautious or strength(new) < ATOM or _laid_out(original) or _breaks_openly(new)):
            return new.with_changes(lpar=(*original.lpar, *new.lpar), rpar=(*new.rpar, *original.rpar))
        if self._cautious and _may_touch_words(original) and not _may_touch_words(new):
            return parenthesise(new)
        return new

    def _block(self, original: cst.CSTNode, updated: Any) -> Any:
        if original in self._blocks:
            if isinstance(original, cst.SimpleStatementSuite):
                return self._suite(original, updated)
            if isinstance(original, cst.IndentedBlock):
                return self._indented_block(original, updated)
            if isinstance(original, cst.Module):
                updated = self._top(original, updated)
            elif self._has_edited_elif(original):
                updated = self._elif(original, updated)  # type: ignore[arg-type]
        if isinstance(original, cst.Module):
            return with_imports(updated, self._imports)
        return updated

    def _top(self, original: cst.Module, updated: cst.Module) -> cst.Module:
        items, rest = self._editor.rewrite(original.body, updated.body, None, at_top=True)
        return updated.with_changes(body=lines_of(items), footer=(*rest, *updated.footer))

    def _indented_block(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        items, rest = self._editor.rewrite(original.body, updated.body, original.indent, at_top=False)
        if items:
            return updated.with_changes(body=lines_of(items), footer=(*rest, *updated.footer))
        filler = cst.Pass()
        self._editor.emptied.add(filler)
        return updated.with_changes(body=[cst.SimpleStatementLine([filler], leading_lines=rest)])

    def _suite(self, original: cst.SimpleStatementSuite, updated: cst.SimpleStatementSuite) -> cst.BaseSuite:
        items, _ = self._editor.rewrite([original], [updated], None, at_top=False)
        if not items:
            filler = cst.Pass()
            self._editor.emptied.add(filler)
            return updated.with_changes(body=[filler])
        lines = lines_of(items)
        if len(lines) == 1 and isinstance(line := lines[0], cst.SimpleStatementLine) and not line.leading_lines:
            return updated.with_changes(body=line.body, trailing_whitespace=line.trailing_whitespace)
        return cst.IndentedBlock(lines)

    def _has_edited_elif(self, original: Any) -> bool:
        orelse = getattr(original, "orelse", None)
        return isinstance(orelse, cst.If) and (
            orelse in self._statements or any(wrap.first is orelse for wrap in self._wraps)
        )

    def _elif(self, original: cst.If, updated: cst.If) -> cst.If:
        """A statement put next to an `elif` turns it into an `else` with a block."""
        items, _ = self._editor.rewrite([original.orelse], [updated.orelse], None, at_top=False)  # type: ignore[list-item]
        if not items:
            return updated.with_changes(orelse=None)
        if [item.statement for item in items] == [updated.orelse]:
            return updated
        leading = items[0].leading
        if len(items) == 1 and isinstance(items[0].statement, cst.If) and isinstance(original.orelse.orelse, cst.If):  # type: ignore[union-attr]
            return updated.with_changes(orelse=items[0].statement.with_changes(leading_lines=leading))
        first, *others = lines_of([indentable(item) for item in items])
        body = cst.IndentedBlock([first.with_changes(leading_lines=()), *others])
        return updated.with_changes(orelse=cst.Else(body, leading_lines=leading))

    def _filler(self, edit: Any) -> templates.Filler:
        def fill(name: str) -> cst.CSTNode:
            part = edit.parts[name]
            if isinstance(part, Inner) or part is getattr(edit, "node", None):
                node = part.node if isinstance(part, Inner) else part
                return _as_part(self._edited(self._twins[node], self._inner))
            return _as_part(self._edited(self._twins[part], self._done))

        return fill

    def _edited(self, node: cst.CSTNode, versions: dict[cst.CSTNode, Any]) -> cst.CSTNode:
        if node not in self._touched:
            return node
        if node not in versions:
            node.visit(self)
        return versions[node]


_OF_STATEMENTS = (DeleteStatement, InsertAfter, InsertBefore, ReplaceStatement, UnwrapStatement)


def _record(record: StatementEdits, edit: Edit) -> None:
    if isinstance(edit, InsertBefore):
        record.before.append(edit)
    elif isinstance(edit, InsertAfter):
        record.after.append(edit)
    elif isinstance(edit, ReplaceStatement):
        record.replacement = edit
    elif isinstance(edit, DeleteStatement):
        record.deleted = edit
    elif isinstance(edit, UnwrapStatement):
        record.unwrapped = edit


def _mentioned(edit: Edit) -> list[ast.AST]:
    if isinstance(edit, RemoveArgument):
        return [*parts(edit), edit.argument]
    return [*parts(edit), edit.parameter] if isinstance(edit, RemoveParameter) else parts(edit)


def _as_part(node: cst.CSTNode) -> cst.CSTNode:
    """A starred argument in the form in which templates take it."""
    if isinstance(node, cst.Arg) and node.star == "*":
        return cst.StarredElement(node.value)
    return node


def _laid_out(node: Any) -> bool:
    """Whether the outermost parentheses hold a line break or a comment."""
    return isinstance(node.lpar[0].whitespace_after, cst.ParenthesizedWhitespace) or isinstance(
        node.rpar[-1].whitespace_before, cst.ParenthesizedWhitespace
    )


def _breaks_openly(node: cst.BaseExpression) -> bool:
    """Whether a line of `node` ends outside of brackets of its own."""
    return "\n" in code(node.func if isinstance(node, cst.Call) else node)


def _may_touch_words(node: cst.BaseExpression) -> bool:
    """Whether `node` begins or ends with a bracket or quote, so that a keyword may stand right next to it."""
    text = code(node)
    return not (text[0].isidentifier() and text[-1].isalnum())
