"""What holds for any edits of any file."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_migrate import edits as e
from accel_migrate.rewrite import rewrite
from accel_migrate.rewrite.conflicts import EditConflict
from accel_migrate.source import Source

ATOMS = ["a", "loss.item()", "x[i, 1:]", "(p + q)", "f'{n}/{len(d):>{w}}'", "[k for k in v if k]", "net(x, *y, k=z)", "-1"]
SMALL = ["{} = {}", "print({}, {})", "x += {} if c else {}", "assert {}, {}", "del d[{}], e[{}]", "y = ({}\n     + {})"]
HEADERS = ["if {}:", "for i, j in enumerate({}):", "while {}:", "with open({}) as f:", "def f(x, y={}):", "@deco({})\ndef g():"]


@st.composite
def small_statements(draw: st.DrawFn) -> str:
    form = draw(st.sampled_from(SMALL))
    first = "t" if form.startswith("{} =") else draw(st.sampled_from(ATOMS))
    return form.format(first, draw(st.sampled_from(ATOMS)))


@st.composite
def lines(draw: st.DrawFn) -> str:
    """One or two statements on a line, with blank lines and comments around."""
    above = draw(st.sampled_from(["", "", "\n", "# why\n", "\n# one\n\n# two\n"]))
    behind = draw(st.sampled_from(["", "", "  # behind", ";"]))
    return above + "; ".join(draw(st.lists(small_statements(), min_size=1, max_size=3))) + behind


@st.composite
def blocks(draw: st.DrawFn, depth: int = 2) -> str:
    indent = draw(st.sampled_from(["    ", "  ", "\t"]))
    statements = draw(st.lists(compounds(indent, depth) if depth else lines(), min_size=1, max_size=3))
    return "\n".join(statements)


@st.composite
def compounds(draw: st.DrawFn, indent: str, depth: int) -> str:
    kind = draw(st.sampled_from(["line", "line", "suite", "block", "chain", "try"]))
    if kind == "line":
        return draw(lines())
    header = draw(st.sampled_from(HEADERS)).format(draw(st.sampled_from(ATOMS)))
    if kind == "suite":
        return f"{header} " + "; ".join(draw(st.lists(small_statements(), min_size=1, max_size=2)))
    body = textwrap.indent(draw(blocks(depth - 1)), indent)
    other = textwrap.indent(draw(blocks(depth - 1)), indent)
    if kind == "block":
        return f"{header}  # head\n{body}\n{indent}# end"
    if kind == "chain":
        return f"if a:\n{body}\nelif b: pass\nelif c:\n{other}\nelse:\n{body}"
    return f"try:\n{body}\nexcept E:\n{other}\nfinally: pass"


@st.composite
def sources(draw: st.DrawFn) -> Source:
    ending = draw(st.sampled_from(["\n", "", "\n\n# last\n"]))
    text = draw(blocks()) + ending
    try:
        ast.parse(text)
    except SyntaxError:  # blocks indented by tabs inside others by spaces
        text = text.expandtabs(4)
    return Source(Path("train.py"), text)


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    fields = ("body", "orelse", "finalbody")
    return [block for node in ast.walk(tree) for name in fields if isinstance(block := getattr(node, name, None), list) and block]


@st.composite
def statement_edits(draw: st.DrawFn, source: Source) -> e.Edit:
    block = draw(st.sampled_from(_blocks(source.tree)))
    first = draw(st.integers(0, len(block) - 1))
    node = block[first]
    common = {"source": source, "rule": "r"}
    kind = draw(st.sampled_from(["delete", "before", "after", "wrap", "replace", "unwrap"]))
    if kind == "wrap":
        last = draw(st.integers(first, len(block) - 1))
        return e.WrapStatements(**common, nodes=tuple(block[first : last + 1]), header="if accelerator:")
    if kind == "unwrap" and isinstance(node, ast.If | ast.With) and not getattr(node, "orelse", None):
        return e.UnwrapStatement(**common, node=node)
    if kind == "replace":
        return e.ReplaceStatement(**common, node=node, template="new()\nif new:\n    new(\n        1)")
    kinds = {"before": e.InsertBefore, "after": e.InsertAfter}
    if kind in kinds:
        return kinds[kind](**common, node=node, template="inserted()")
    return e.DeleteStatement(**common, node=node)


@st.composite
def expression_edits(draw: st.DrawFn, source: Source) -> e.Edit:
    loads = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name | ast.Call) and _is_read(n)]
    node = draw(st.sampled_from(loads or [source.tree.body[0]]))
    if not isinstance(node, ast.expr):
        return e.AddImport(source=source, rule="r", module="m", names=("n",))
    template = draw(st.sampled_from(["new({x})", "{x} + 1", "new", "not {x}", "({x}, 'a')", "{x} if {x} else 0"]))
    return e.ReplaceExpression(source=source, rule="r", node=node, template=template, parts={"x": node})


def _is_read(node: ast.AST) -> bool:
    return not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Load)


def _rewritten(source: Source, edits: Sequence[e.Edit]) -> str | None:
    try:
        return rewrite(source, edits)
    except EditConflict:
        return None


SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(sources())
def test_an_edit_without_effect_changes_no_byte(source: Source) -> None:
    first = source.tree.body[0]
    twice = [e.InsertBefore(source=source, rule="r", node=node, template="") for node in (first, source.tree.body[-1])]
    assert rewrite(source, twice) == source.text
    assert rewrite(source, [e.DropImportIfUnused(source=source, rule="r", name="os")]) == source.text


@SETTINGS
@given(st.data())
def test_any_edits_leave_valid_code(data: st.DataObject) -> None:
    source = data.draw(sources())
    made = st.lists(st.one_of(statement_edits(source), expression_edits(source)), min_size=1, max_size=5)
    text = _rewritten(source, data.draw(made))
    if text is not None:
        compile(text, "after", "exec", ast.PyCF_ONLY_AST)
        assert not any(line != line.rstrip() for line in text.split("\n") if not line.rstrip().endswith(";"))


@SETTINGS
@given(st.data())
def test_lines_without_edits_stay(data: st.DataObject) -> None:
    source = data.draw(sources())
    edit = data.draw(st.one_of(statement_edits(source), expression_edits(source)))
    text = _rewritten(source, [edit])
    assert text is not None
    before, after = source.text.split("\n"), text.split("\n")
    first, last = _span(edit, before)
    assert after[:first] == before[:first]
    rest = [line for line in before[last:] if line]
    kept = [line for line in after if line]
    assert kept[len(kept) - len(rest) :] == rest


def _span(edit: e.Edit, lines: Sequence[str]) -> tuple[int, int]:
    """How many lines above an edit must stay as they are, and from which line on all but blank ones must."""
    if isinstance(edit, e.AddImport):
        return 0, len(lines)
    nodes = edit.nodes if isinstance(edit, e.WrapStatements) else (edit.node,)  # type: ignore[attr-defined]
    heads = [nodes[0], *getattr(nodes[0], "decorator_list", [])]
    last = max(node.end_lineno for node in (*nodes, *_on_one_line_with(nodes[0], edit.source.tree)))
    while last < len(lines) and (not lines[last] or _indent(lines[last]) > nodes[0].col_offset):
        last += 1  # comments at the end of a block
    return max(min(node.lineno for node in heads) - 4, 0), last


def _on_one_line_with(node: ast.AST, tree: ast.Module) -> list[ast.stmt]:
    """The statements that share a line with `node`: they are moved to lines of their own."""
    return [s for s in ast.walk(tree) if isinstance(s, ast.stmt) and s.lineno == node.lineno]  # type: ignore[attr-defined]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@SETTINGS
@given(st.data())
def test_expressions_mean_what_was_asked_for(data: st.DataObject) -> None:
    source = data.draw(sources())
    made = data.draw(st.lists(expression_edits(source), min_size=1, max_size=6))
    edits = {edit.node: edit for edit in made if isinstance(edit, e.ReplaceExpression)}
    text = rewrite(source, list(edits.values()))
    assert ast.dump(ast.parse(text)) == ast.dump(_Replaced(edits).visit(source.tree))


class _Replaced(ast.NodeTransformer):
    """The same edits made to the `ast`."""

    def __init__(self, edits: Mapping[ast.expr, e.ReplaceExpression]) -> None:
        self._edits = edits

    def visit(self, node: ast.AST) -> ast.AST:
        edit = self._edits.get(node)  # type: ignore[call-overload]
        inner = self.generic_visit(node)
        if edit is None:
            return inner
        return _Part(inner).visit(ast.parse(edit.template.replace("{x}", "PART"), mode="eval").body)


class _Part(ast.NodeTransformer):
    def __init__(self, part: ast.AST) -> None:
        self._part = part

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._part if node.id == "PART" else node


def test_an_empty_file() -> None:
    source = Source(Path("train.py"), "")
    assert rewrite(source, [e.AddImport(source=source, rule="r", module="m", names=("n",))]) == "from m import n\n"


@pytest.mark.parametrize("text", ["x = 1", "\n\nx\n", "\x0cx\n", "# only\nx = 1;\n"])
def test_odd_ends_stay(text: str) -> None:
    source = Source(Path("train.py"), text)
    node = source.tree.body[0]
    assert rewrite(source, [e.InsertAfter(source=source, rule="r", node=node, template="")]) == text


DEEP = {
    "a long sum": "x = " + " + ".join(["a"] * 800),
    "a long chain of elif": "if a: b" + "\nelif a: b" * 800,
    "a long chain of calls": "x = a" + ".b()" * 400,
    "deep brackets": "x = " + "[" * 90 + "]" * 90,
}


@pytest.mark.parametrize("deep", DEEP.values(), ids=DEEP.keys())
def test_deep_trees(deep: str) -> None:
    source = Source(Path("train.py"), f"{deep}\ny\n")
    edit = e.DeleteStatement(source=source, rule="r", node=source.tree.body[-1])
    assert rewrite(source, [edit]) == f"{deep}\n"
