"""A figure that is shown several times is made global once, where it is shown first.

`total += loss.item()` and, further down, `writer.add_scalar("loss", loss.item(), step)` and `bar.set_postfix(loss=loss.item())`
are one reduction: `global_loss = accelerator.global_mean(loss).item()`. No process waits for others inside a condition then.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Inner, InsertBefore


@dataclass(frozen=True, eq=False)
class Figure:
    """`value`, which `template` makes global; `guarded` are the statements around it that only the main process runs."""

    value: ast.expr
    template: str
    parts: Mapping[str, ast.AST]
    guarded: list[ast.stmt] | None
    sharable: bool


@dataclass(eq=False)
class Figures:
    """All figures of a program, and the edits for them."""

    context: Context
    rule: str
    why: str
    _figures: list[Figure] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def add(self, figure: Figure) -> None:
        self._figures.append(figure)

    def edits(self) -> Iterator[Edit]:
        groups: dict[tuple[ast.AST, str, str], list[Figure]] = defaultdict(list)
        for figure in self._figures:
            text = ast.unparse(figure.value if self._is_number(figure) else self._whole(figure))
            kind = f"{figure.template}.item()" if self._is_number(figure) else figure.template
            groups[self.context.facts.function(figure.value), text, kind].append(figure)
        for group in groups.values():
            waiting = sorted(group, key=lambda f: (f.value.lineno, f.value.col_offset))
            while waiting:
                first, *others = waiting
                shared = [f for f in others if self._is_reached(first, f)]
                yield from self._once(first, shared) if shared or first.guarded is not None else self._alone(first)
                waiting = [f for f in others if f not in shared]

    def _alone(self, figure: Figure) -> Iterator[Edit]:
        yield self._replace(figure.value, figure.template, self._inner(figure, figure.value))

    def _once(self, first: Figure, shared: list[Figure]) -> Iterator[Edit]:
        """All processes reduce, in front of the first statement that shows the figure, also where that is a guarded one."""
        whole = self._whole(first)
        name = self._given_name(first, shared)
        if name is not None:
            yield from self._alone(first)
        else:
            name = self._new_name(first.value)
            number = any(self._whole(figure) is not figure.value for figure in (first, *shared))
            template = f"{name} = {first.template}{'.item()' if number else ''}"
            anchor = self._anchor(first)
            yield InsertBefore(
                source=self.context.source(anchor),
                rule=self.rule,
                why=self.why,
                node=anchor,
                template=template,
                parts=self._inner(first, whole),
            )
            yield self._replace(whole, name, {})
        for figure in shared:
            yield self._replace(self._whole(figure), name, {})

    def _replace(self, node: ast.expr, template: str, parts: Mapping[str, ast.AST | Inner]) -> Edit:
        return self.context.replace(self.rule, node, template, self.why, **parts)

    def _inner(self, figure: Figure, node: ast.expr) -> dict[str, ast.AST | Inner]:
        return {key: Inner(part) if part is node else part for key, part in figure.parts.items()}

    def _whole(self, figure: Figure) -> ast.expr:
        """`loss.item()` around `loss`, where a variable is to hold the number."""
        call = self.context.facts.parents.get(self.context.facts.parents[figure.value])
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.value is figure.value
            and call.func.attr == "item"
        ):
            return call
        return figure.value

    def _is_number(self, figure: Figure) -> bool:
        """Whether a number is shown: `loss.item()`, and `{loss:.3f}`, which reads the same."""
        parent = self.context.facts.parents[figure.value]
        formatted = isinstance(parent, ast.FormattedValue) and parent.format_spec is not None and parent.conversion == -1
        return formatted or self._whole(figure) is not figure.value

    def _anchor(self, figure: Figure) -> ast.stmt:
        return figure.guarded[0] if figure.guarded else self.context.facts.statement(figure.value)

    # -- which figures are one ---------------------------------------------------------------------------
    def _is_reached(self, first: Figure, other: Figure) -> bool:
        """Whether `other` shows what `first` shows, whenever it is run: below it, with no new value in between."""
        anchor = self._anchor(first)
        if first.guarded and other.guarded and anchor is self._anchor(other):
            return True
        block = self._block(anchor)
        if block is None or isinstance(anchor, ast.While) or not (first.sharable and other.sharable):
            return False
        lineage = {id(other.value), *(id(a) for a in self.context.facts.ancestors(other.value))}
        begin = block.index(anchor)
        last = next((i for i, statement in enumerate(block) if i >= begin and id(statement) in lineage), None)
        if last is None:
            return False
        names = set(re.findall(r"[^\W\d]\w*", f"{ast.unparse(first.value)} {first.template}"))
        evaluated_at_once = last == begin and isinstance(anchor, ast.Assign | ast.AugAssign | ast.Expr | ast.Return)
        return evaluated_at_once or not any(
            changes(node, names) for statement in block[begin : last + 1] for node in ast.walk(statement)
        )

    def _block(self, statement: ast.stmt) -> list[ast.stmt] | None:
        """The statements among which a line can go in front of `statement`; None for an `elif`."""
        parent = self.context.facts.parents[statement]
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and statement in block:
                return (
                    None if isinstance(parent, ast.If) and name == "orelse" and isinstance(statement, ast.If) else block
                )
        return None

    # -- names -------------------------------------------------------------------------------------------
    def _given_name(self, first: Figure, shared: list[Figure]) -> str | None:
        """`value` of `value = loss.item()`, where it still holds that when the others are shown."""
        statement = self._anchor(first)
        if not isinstance(statement, ast.Assign) or statement.value is not self._whole(first) or first.guarded:
            return None
        target = statement.targets[0]
        if (
            len(statement.targets) > 1
            or not isinstance(target, ast.Name)
            or (isinstance(first.value, ast.Name)
            and target.id == first.value.id)
        ):
            return None
        function = self.context.facts.function(first.value)
        stores = [
            n
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and n.id == target.id and not isinstance(n.ctx, ast.Load)
        ]
        return target.id if len(stores) == 1 else None

    def _new_name(self, value: ast.expr) -> str:
        base = named(value)
        names = self._names | {n.id for n in ast.walk(self.context.facts.function(value)) if isinstance(n, ast.Name)}
        name, count = f"global_{base}", 1
        while name in names:
            count += 1
            name = f"global_{base}_{count}"
        self._names.add(name)
        return name


def named(value: ast.expr) -> str:
    """`loss` of `loss`, `self.loss`, `loss.data[0]` and `loss.detach()`."""
    while isinstance(value, ast.Subscript | ast.Call | ast.Attribute):
        if isinstance(value, ast.Attribute) and value.attr not in {"data", "detach", "clone", "cpu"}:
            return value.attr
        value = value.func if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else getattr(value, "value", ast.Constant(None))
    return value.id if isinstance(value, ast.Name) else "value"


def changes(node: ast.AST, names: set[str]) -> bool:
    """Whether `node` binds one of `names` anew or changes its tensor in place (`loss /= n`, `loss.div_(n)`)."""
    if isinstance(node, ast.Name):
        return node.id in names and not isinstance(node.ctx, ast.Load)
    called = node.func if isinstance(node, ast.Call) else None
    if not isinstance(called, ast.Attribute) or not isinstance(called.value, ast.Name) or called.value.id not in names:
        return False
    return called.attr.endswith("_") and not called.attr.endswith("__")
