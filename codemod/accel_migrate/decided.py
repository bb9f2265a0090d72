"""The plan for a program, and for losses that no weight makes global the places where the whole batch is gathered for them.

The rules say first what they would do with each process's own rows. Where they then report a loss that looks at the batch
as a whole, the rows are gathered for it, if that leaves nothing to report there and brings up nothing new.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from accel_migrate.context import Context
from accel_migrate.edits import Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Facts, Gather
from accel_migrate.facts.interpret import gather_facts
from accel_migrate.facts.whole_losses import places, region
from accel_migrate.plan import Plan
from accel_migrate.project import Project
from accel_migrate.rules.whole_batch_loss import ID
from accel_migrate.selection import is_wanted

Planner = Callable[[Facts], tuple[Context | None, Plan | None]]
MOST_PLACES = 4

COUPLED = {"batch-coupling", "local-figure", "mixed-reduction", "row-loops", "row-mixing", "summed-batches"}
"""Findings that a loss (or what it is made of) wants the rows of all processes."""


def decided(project: Project, facts: Facts, planner: Planner) -> tuple[Facts, Context | None, Plan | None]:
    """The facts and the plan by which `project` is rewritten."""
    context, plan = planner(facts)
    if context is None or plan is None or not context.dialect.exact or context.distributed or facts.cuts or not is_wanted(ID, context.options):
        return facts, context, plan
    chosen: list[Gather] = []
    for gather in list(places(facts))[:MOST_PLACES]:
        inside = region(facts, gather)
        if not _coupled(plan, inside) or _draws(facts, inside):
            continue
        others = gather_facts(project, [*chosen, gather])
        other_context, other_plan = planner(others)
        if other_plan is not None and not _coupled(other_plan, inside) and _places(other_plan) < _places(plan):
            chosen.append(gather)
            facts, context, plan = others, other_context, other_plan
    return facts, context, plan


def _coupled(plan: Plan, inside: set[ast.AST]) -> list[Finding]:
    return [finding for finding in plan.findings if finding.rule in COUPLED and finding.severity is not Severity.INFO and finding.node in inside]


def _places(plan: Plan) -> set[tuple[str, ast.AST]]:
    return {(finding.rule, finding.node) for finding in plan.findings}


def _draws(facts: Facts, inside: set[ast.AST]) -> bool:
    """Whether random numbers go into the loss: the streams of the processes may stand at different places."""
    random = catalog.RANDOM_DRAWS | catalog.RANDOM_LIKES | catalog.ROW_DRAWS | catalog.BATCH_PERMUTATIONS
    return any(isinstance(node, ast.Call) and (facts.external.get(node) in random or "dropout" in facts.external.get(node, "")) for node in inside)
