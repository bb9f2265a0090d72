"""Runs the rules over the facts and keeps what they say."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.edits import DeleteStatement, Edit, Finding, Inner, ReplaceExpression, ReplaceStatement
from accel_migrate.facts.facts import Facts
from accel_migrate.result import Options
from accel_migrate.rules import all_rules


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


def make_plan(context: Context, options: Options) -> Plan:
    """What all selected rules want to do."""
    plan = Plan(context.facts)
    rules = [r for r in all_rules() if (not options.select or r.id in options.select) and r.id not in options.ignore]
    for rule in rules:
        for item in rule.apply(context):
            plan.add(item)
    for rule in rules:
        for item in rule.finish(context, plan):
            plan.add(item)
    return plan
