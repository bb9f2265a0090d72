"""The pipeline: project -> facts -> plan -> rewritten files -> gate -> result."""

from __future__ import annotations

import gc
from collections import defaultdict
from dataclasses import replace

from accel_migrate.accelerated.still_open import still_open
from accel_migrate.context import Context
from accel_migrate.decided import decided
from accel_migrate.dialects import DIALECTS, Dialect
from accel_migrate.edits import AddImport, DropImportIfUnused, Edit, Finding
from accel_migrate.explain import explain
from accel_migrate.facts.accelerated import accelerator_calls, library_of
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.home import possible_homes
from accel_migrate.facts.interpret import gather_facts
from accel_migrate.gate import objection
from accel_migrate.notebook.launch import launch_of
from accel_migrate.places import line_of
from accel_migrate.plan import Plan, make_plan
from accel_migrate.processes.stages import finished, staged
from accel_migrate.project import Project
from accel_migrate.refusals import plain_refusal, reason_to_refuse
from accel_migrate.result import FileChange, Options, Result
from accel_migrate.rules._partners import RULE as PARTNERS
from accel_migrate.selection import is_wanted
from accel_migrate.source import Source
from accel_migrate.suppress import is_suppressed, suppressions


def migrate(project: Project, options: Options) -> Result:
    """The migration of `project`; what must not be written is refused."""
    collecting = gc.isenabled()
    gc.disable()  # millions of small objects, next to no cycles among them
    try:
        return _passed(project, options)
    finally:
        project.traces.end()
        if collecting:
            gc.enable()


def _passed(project: Project, options: Options) -> Result:
    """The migration of `project`, if it passes the gate."""
    result = _migrate(project, options)
    if result.status == "unchanged" and not result.findings:
        return replace(result, findings=still_open(project, lambda original: _findings(original, options)))
    if result.status != "changed":
        return result
    problem = objection(project, result.changes, lambda changed: _migrate(changed, options))
    return Result(project, "refused", problem, findings=result.findings) if problem else result


def _migrate(project: Project, options: Options) -> Result:
    """The stages around the rules bring hand-started processes into one form first, and sweep up after them."""
    refusal = plain_refusal(project)
    if refusal is not None:
        return Result(project, refusal.status, refusal.reason)
    stage = staged(project, gather_facts(project), options)
    return finished(stage, _ruled(stage.project, stage.facts, options), options)


def _ruled(project: Project, facts: Facts, options: Options) -> Result:
    """The program by the rules alone."""
    refusal = reason_to_refuse(facts)
    if refusal is not None:
        return Result(project, refusal.status, refusal.reason, findings=refusal.findings, explanation=explain(facts))
    if facts.cuts and not DIALECTS[options.target].exact:
        reason = "it makes its batches by itself, and Hugging Face Accelerate has no call that cuts them: use --target accel_runtime"
        return Result(project, "refused", reason, explanation=explain(facts))
    facts, context, plan = decided(project, facts, lambda facts: _planned(facts, options))
    if context is None or plan is None:
        return Result(project, "refused", "no optimizer or model found: nothing says what is trained", explanation=explain(facts))
    unreached = _unreached(plan)
    if unreached is not None:
        reason = unreached.message.replace("to here", f"to {unreached.source.where(line_of(unreached))}", 1)
        return Result(project, "refused", reason, findings=[f for f in plan.findings if f.rule == "out-of-reach"], explanation=explain(facts))
    changes = [FileChange(source, after, edits) for source, edits, after in _rewritten(plan)]
    status = "changed" if changes else "unchanged"
    findings = [f for f in plan.findings if is_wanted(f.rule, options)]
    return Result(project, status, "" if changes else "nothing to change", changes, findings, [], context.notes, explain(facts))


def _findings(project: Project, options: Options) -> list[Finding]:
    """What the rules report, with nothing rewritten."""
    facts = gather_facts(project)
    if reason_to_refuse(facts) is not None:
        return []
    reporting = replace(options, ignore=options.ignore | {PARTNERS})
    _, _, plan = decided(project, facts, lambda facts: _planned(facts, reporting))
    if plan is None or _unreached(plan) is not None:
        return []
    return [finding for finding in plan.findings if is_wanted(finding.rule, options)]


def _planned(facts: Facts, options: Options) -> tuple[Context | None, Plan | None]:
    """The plan for the first home from which everything is reached, else for the most natural one."""
    homes = list(possible_homes(facts))
    dialect = _dialect(facts, options)
    launch = None if options.as_script else launch_of(facts, dialect.launcher_returns)
    for home in launch.homes(homes) if launch is not None else ():
        context = Context(facts, options, dialect, home, launch=launch)
        plan = _launched(context, options)
        if plan is not None:
            return context, plan
    first: tuple[Context | None, Plan | None] = None, None
    for home in homes:
        reaches = Context(facts, options, dialect, home).reaches_training()
        if not reaches and first[0] is not None:
            continue
        context = Context(facts, options, dialect, home)
        plan = _without_suppressed(make_plan(context, options), facts.sources)
        if reaches and _unreached(plan) is None:
            return context, plan
        first = first if first[0] is not None else (context, plan)
    return first


def _launched(context: Context, options: Options) -> Plan | None:
    """The plan for a notebook of which only launched calls train; None where more would have to change."""
    facts, launch = context.facts, context.launch
    assert launch is not None
    if not Context(facts, options, context.dialect, context.home).reaches_training():
        return None
    plan = make_plan(context, options)
    if _unreached(plan) is not None or not launch.is_enough(facts, plan.edits, context.accelerator.parameters):
        return None
    plan.edits = launch.kept(facts, plan.edits)
    plan.findings = [finding for finding in plan.findings if not launch.is_outside(facts, finding)]
    return _without_suppressed(plan, facts.sources)


def _dialect(facts: Facts, options: Options) -> Dialect:
    """The one asked for; a script that makes an Accelerator keeps to its library."""
    return DIALECTS[library_of(facts) if accelerator_calls(facts) else options.target]


def _unreached(plan: Plan) -> Finding | None:
    return next((f for f in plan.findings if f.rule == "out-of-reach"), None)


def _without_suppressed(plan: Plan, sources: list[Source]) -> Plan:
    tables = {source: suppressions(source) for source in sources}
    plan.edits = [e for e in plan.edits if not is_suppressed(e, tables[e.source])]
    plan.findings = [f for f in plan.findings if not is_suppressed(f, tables[f.source])]
    return plan


def _rewritten(plan: Plan) -> list[tuple[Source, list[Edit], str]]:
    from accel_migrate.rewrite import rewrite

    by_source: dict[Source, list[Edit]] = defaultdict(list)
    for edit in plan.edits:
        by_source[edit.source].append(edit)
    result = []
    for source, edits in by_source.items():
        if all(isinstance(e, AddImport | DropImportIfUnused) for e in edits):
            continue
        after = rewrite(source, edits)
        if after != source.text:
            result.append((source, edits, after))
    return result
