"""Runs the rules over the facts and keeps what they say."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.edits import AddImport, DeleteStatement, Edit, Finding, Inner, ReplaceExpression, ReplaceStatement
from accel_migrate.facts.facts import Facts
from accel_migrate.result import Options
from accel_migrate.rules import all_rules
from accel_migrate.selection import is_wanted, runs
from accel_migrate.source import Source

FUNCTIONS = {"PartialState", "gather_for_metrics", "global_mean", "global_sum", "global_len", "draw", "shard_batch", "gather", "reduce"}
"""Names of the runtime that are imported for the places which say them."""


@dataclass(eq=False)
class Plan:
    """The edits and findings of one run."""

    facts: Facts
    edits: list[Edit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, item: Edit | Finding) -> None:
        (self.findings if isinstance(item, Finding) else self.edits).append(item)  # type: ignore[arg-type]

    def is_removed(self, node: ast.AST) -> bool:
        """Whether an edit drops `node`: it is deleted, or replaced by a template of which it is no part."""
        lineage = {id(node), *(id(a) for a in self.facts.ancestors(node))}
        for edit in self.edits:
            if isinstance(edit, DeleteStatement) and id(edit.node) in lineage:
                return True
            if isinstance(edit, ReplaceExpression | ReplaceStatement) and id(edit.node) in lineage and not _keeps(edit, lineage):
                return True
        return False


def _keeps(edit: ReplaceExpression | ReplaceStatement, lineage: set[int]) -> bool:
    nodes = (part.node if isinstance(part, Inner) else part for part in edit.parts.values())
    return any(id(node) in lineage for node in nodes)


def merged(edits: list[Edit]) -> list[Edit]:
    """`edits`, where one that wraps an expression and one that replaces the same expression are one edit.

    `loss.detach()` -> `global_mean(loss.detach())` and -> `loss` together give `global_mean(loss)`.
    """
    result: list[Edit] = []
    place: dict[int, int] = {}
    for edit in edits:
        if isinstance(edit, ReplaceExpression):
            if id(edit.node) in place:
                index = place[id(edit.node)]
                both = _wrapped(result[index], edit) or _wrapped(edit, result[index])  # type: ignore[arg-type]
                if both is not None:
                    result[index] = both
                    continue
            place[id(edit.node)] = len(result)
        result.append(edit)
    return result


def _wrapped(inner: ReplaceExpression, outer: ReplaceExpression) -> ReplaceExpression | None:
    """`outer` around the result of `inner`; None if `outer` does not contain the expression itself."""
    if inner.template == outer.template and dict(inner.parts) == dict(outer.parts):
        return inner
    keys = [k for k, part in outer.parts.items() if isinstance(part, Inner) and part.node is outer.node]
    if not keys:
        return None
    renamed = {f"inner_{key}": part for key, part in inner.parts.items()}
    text = inner.template
    for key in inner.parts:
        text = text.replace(f"{{{key}}}", f"{{inner_{key}}}")
    template = outer.template
    simple = _is_primary(text)
    for key in keys:
        alone = simple or template in {f"{{{key}}}", f"({{{key}}})"} or f"({{{key}}})" in template or f"({{{key}}}, " in template
        template = template.replace(f"{{{key}}}", text if alone else f"({text})")
    parts = {k: p for k, p in outer.parts.items() if k not in keys} | renamed
    return ReplaceExpression(source=outer.source, rule=outer.rule, why=outer.why, node=outer.node, template=template, parts=parts)


def _is_primary(template: str) -> bool:
    """Whether `template` binds tighter than any operator, so that it needs no parentheses."""
    try:
        node = ast.parse(template.replace("{", "_").replace("}", "_").replace("@", "_"), mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _is_idle(context: Context, item: Edit | Finding) -> bool:
    """Whether `item` changes a function which nothing in the program calls, or asks for the accelerator there."""
    if isinstance(item, Finding) and item.rule != "out-of-reach":
        return False
    node = getattr(item, "node", None) or next(iter(getattr(item, "nodes", ())), None)
    return node is not None and context.is_unused(node)


def _without_needless_imports(edits: list[Edit]) -> list[Edit]:
    """Without the imports of the runtime's functions which only changes that were left out needed."""
    texts = {(e.source, getattr(e, "template", "") or getattr(e, "header", "") or getattr(e, "value", "")) for e in edits}
    said: dict[Source, str] = defaultdict(str)
    for source, text in texts:
        said[source] += f" {text}" if isinstance(text, str) else ""
    needless = [e for e in edits if isinstance(e, AddImport) and e.names and set(e.names) <= FUNCTIONS and not any(n in said[e.source] for n in e.names)]
    return [e for e in edits if e not in needless]


def make_plan(context: Context, options: Options) -> Plan:
    """What all selected rules want to do."""
    from accel_migrate.tidy import emptied_branches

    plan = Plan(context.facts)
    rules = [r for r in all_rules() if runs(r, options)]
    for rule in sorted(rules, key=lambda rule: rule.late):
        for item in rule.apply(context):
            if not _is_idle(context, item):
                plan.add(item)
    for deletion in list(emptied_branches(plan)):
        plan.add(deletion)
    for rule in rules:
        for item in rule.finish(context, plan):
            if not _is_idle(context, item):
                plan.add(item)
    plan.edits = _without_needless_imports(plan.edits)
    plan.edits = merged([e for e in plan.edits if is_wanted(e.rule, options)])
    return plan
