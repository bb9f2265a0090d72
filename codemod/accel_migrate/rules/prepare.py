"""Models, optimizers, loaders and schedulers are prepared: together, after the last of them is made.

A model is prepared if its parameters, or those of a part, went into an optimizer (and it is no part of such a model); a loader, if batches from it reach a
model or a backward pass.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Inner, InsertAfter, ReplaceExpression, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.facts import Binding
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.facts.whole_steps import steps_on_whole_data
from accel_migrate.rules._chosen import arrives, by_loops, choose, first_made, is_read
from accel_migrate.rules._initialising import initialises
from accel_migrate.rules._surely import surely_bound
from accel_migrate.rules._variables import RUNNABLE, Object, Variable, lives
from accel_migrate.rules._wholes import prepared_by_themselves, wrapped_twice
from accel_migrate.rules.backward import out_of_reach
from accel_migrate.side_effects import loops_over, runs_models

ID = "prepare"
TITLE = "Prepare models, optimizers, loaders and schedulers"
WHY = "prepared objects are cut, synchronised and moved by the accelerator"
FINDINGS = {"unknown-parameters": "Report optimizers of which it is not known whose parameters they train"}
ORDER = (Role.MODEL, Role.OPTIMIZER, Role.LOADER, Role.SCHEDULER)


def apply(context: Context) -> Iterator[Edit | Finding]:
    wanted = prepared_sites(context)
    named = _variables(context, wanted)
    unread = [v for v in named if v.role is Role.LOADER and not is_read(v)]
    variables = choose(context, [v for v in named if v not in unread])
    groups: dict[tuple[Scope, tuple[ast.stmt, ...]], list[Variable]] = defaultdict(list)
    for variable in (part for whole in variables for part in by_loops(context.facts, whole)):
        groups[variable.scope, variable.bindings[-1].loops].append(variable)
    for (scope, loops), group in groups.items():
        yield from _prepare(context, scope, loops, group)
    covered = {made for variable in (*variables, *unread) for made in variable.made}
    iterated = {getattr(loader, "site", None) for loop in context.facts.loops.values() for loader in loop.loaders}
    covered |= {o for b in context.facts.bindings if _throws_away(b) for o in _objects(context, b) if o[1] is Role.LOADER and o[0] not in iterated}
    alone = {site: role for site, role in wanted if (site, role) not in covered and isinstance(site, ast.Call)}
    for site, role in alone.items():
        if not arrives(context, site, variables):
            yield from _in_place(context, site, role)
    yield from _of_nobody(context)
    yield from (finding for site in context.trained if (finding := wrapped_twice(context, site)) is not None)


def _of_nobody(context: Context) -> Iterator[Finding]:
    """Optimizers whose parameters belong to no model that is prepared: nobody averages their gradients."""
    if context.distributed:
        return
    for site, models in context.facts.optimized.items():
        if not models and isinstance(site, ast.Call) and not context.is_unused(site) and not steps_on_whole_data(context.facts, site):
            yield Finding(
                source=context.source(site), node=site, rule="unknown-parameters", severity=Severity.ERROR,
                message="whose parameters this optimizer trains is not known: the gradients of what is not prepared are not averaged over the processes",
                advice="prepare the module that holds them: model = accelerator.prepare(model)",
            )  # fmt: skip


def prepared_sites(context: Context) -> dict[Object, None]:
    """Everything that must be prepared, in order: where it is made, and its role; a factory may make objects of several roles at one place."""
    facts = context.facts
    found: dict[Object, None] = dict.fromkeys((site, Role.MODEL) for site in prepared_by_themselves(context))
    for values in facts.values.values():
        for value in values:
            role = facts.role(value)
            if role in {Role.OPTIMIZER, Role.SCHEDULER} or (role is Role.LOADER and value not in facts.looked_at):
                found[value.site, role] = None  # type: ignore[union-attr]
    return {(site, role): None for site, role in found if role not in context.left_out and site not in facts.inner_optimizers}


def _variables(context: Context, wanted: dict[Object, None]) -> list[Variable]:
    found: dict[tuple[Scope, str], Variable] = {}
    for binding in context.facts.bindings:
        if not isinstance(binding.target, ast.Name | ast.Attribute) or context.in_model(binding.statement) or _takes_out(binding.statement):
            continue
        if _throws_away(binding) or _wraps_itself(context, binding.statement):
            continue
        made = {o for o in _objects(context, binding) if o in wanted}
        roles = {role for _, role in made}
        if len(roles) != 1:
            continue
        text = ast.unparse(binding.target)
        variable = found.setdefault((binding.scope, text), Variable(text, roles.pop(), set(), binding.scope))
        variable.made |= made
        if all(b.statement is not binding.statement for b in variable.bindings):
            variable.bindings.append(binding)
    for variable in found.values():
        variable.bindings = first_made(variable.bindings)
    return _without_results(context, list(found.values()))


def _objects(context: Context, binding: Binding) -> set[Object]:
    """What `binding` binds: where each object is made, and its role."""
    objects = [(v, context.facts.role(v)) for v in binding.values if isinstance(v, Made | Instance)]
    return {(v.site, role) for v, role in objects if role is not None}


def _throws_away(binding: Binding) -> bool:
    return isinstance(binding.target, ast.Name) and binding.target.id == "_"


def _takes_out(statement: ast.stmt) -> bool:
    """`model = model.module` and `for model in models:` make nothing."""
    if isinstance(statement, ast.For | ast.AsyncFor):
        return True
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Attribute) and value.attr == "module"


def _wraps_itself(context: Context, statement: ast.stmt) -> bool:
    """`model = DataParallel(model)`, which goes, makes nothing."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call) or not statement.value.args:
        return False
    wraps = context.facts.external.get(statement.value) in catalog.DATA_PARALLEL | catalog.DISTRIBUTED_DATA_PARALLEL
    return wraps and ast.unparse(statement.targets[0]) == ast.unparse(statement.value.args[0])


def _without_results(context: Context, variables: list[Variable]) -> list[Variable]:
    """`model = train(model)` binds what was made (and must be prepared) before: such bindings make nothing."""
    made = {id(v): [b for b in v.bindings if not _is_run(context, b.statement)] for v in variables}
    elsewhere = {o for v in variables for b in made[id(v)] for o in _objects(context, b)}
    kept = []
    for variable in variables:
        if variable.made <= elsewhere:
            variable.bindings = made[id(variable)]
        if variable.bindings:
            kept.append(variable)
    return kept


def _is_run(context: Context, statement: ast.stmt) -> bool:
    """Whether `statement` is an assignment that runs models."""
    return isinstance(statement, ast.Assign | ast.AnnAssign) and runs_models(context.facts, statement)


# -- placing --------------------------------------------------------------------------------------------
def _prepare(context: Context, scope: Scope, loops: tuple[ast.stmt, ...], group: list[Variable]) -> Iterator[Edit | Finding]:
    """One call after the last statement that makes (or restores) one of them, in the block that holds them all."""
    container = loops[-1] if loops else scope.node
    blocks: dict[int, tuple[list[ast.stmt], list[Variable]]] = {}
    for variable in group:
        for block, part in _by_branch(context, container, variable):
            block = _in_guard(context, block)
            blocks.setdefault(id(block), (block, []))[1].extend(lives(context.facts, block, part))
    waves = [(block, wave) for block, variables in blocks.values() for wave in _waves(context, block, variables)]
    for block, variables in waves:
        anchor = _anchor(context, block, variables)
        names = ", ".join(v.text for role in ORDER for v in variables if v.role is role)
        try:
            call = context.say("@accelerator@.prepare", anchor)
        except Unreachable:
            yield out_of_reach(context, anchor)
            continue
        template = f"{names} = {call}({names})"
        indent = block[0].col_offset
        if indent + len(template) > 100 and "," in names:
            template = f"{names} = {call}(\n    {names}\n)"
        yield InsertAfter(source=context.source(anchor), rule=ID, why=WHY, node=anchor, template=template)


def _in_guard(context: Context, block: list[ast.stmt]) -> list[ast.stmt]:
    """`block`, or the main guard below it if the accelerator is made in that."""
    guard = next((a for a in context.facts.ancestors(context.home.anchor) if _is_main_guard(a)), None)
    above = isinstance(guard, ast.If) and guard in block and context.facts.block(context.home.anchor) is not block
    return guard.body if above else block  # type: ignore[union-attr]


def _by_branch(context: Context, container: ast.AST, variable: Variable) -> Iterator[tuple[list[ast.stmt], Variable]]:
    """`variable` in the block where it is surely bound; in one for each branch, where only some branches of a choice make it."""
    rest = variable.bindings
    while rest:
        part = replace(variable, bindings=rest)
        block = _block_for(context, container, part)
        within = {id(n) for s in block for n in ast.walk(s)}
        outside = [b for b in rest if id(b.statement) not in within]
        branches = bool(outside) and all(_is_branch_of(context, b.statement, block) for b in outside)
        if not branches:
            yield block, part
            return
        yield block, replace(variable, bindings=[b for b in rest if b not in outside])
        rest = outside


def _is_branch_of(context: Context, statement: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether `statement` stands in another branch of a choice than `block` does."""
    around = {id(a): a for a in context.facts.ancestors(block[0])}
    common = next((a for a in context.facts.ancestors(statement) if id(a) in around), None)
    return isinstance(common, ast.If) and common.lineno < block[0].lineno


def _waves(context: Context, block: list[ast.stmt], variables: list[Variable]) -> list[list[Variable]]:
    """`variables` in groups: what is used to run models or looped over, or gets another value, before the others are made is prepared before that."""
    sites = {site for v in variables for site, role in v.made if role is Role.LOADER}
    used = [i for i, s in enumerate(block) if isinstance(s, RUNNABLE) and (runs_models(context.facts, s) or loops_over(context.facts, s, sites))]
    runs = [*used, *(i for i, s in enumerate(block) if _rebinds(s, variables) and not _wraps_itself(context, s))]
    waves: dict[int, list[Variable]] = defaultdict(list)
    for variable in variables:
        statements = {id(b.statement) for b in variable.bindings}
        made = max((i for i, s in enumerate(block) if any(id(n) in statements for n in ast.walk(s))), default=0)
        waves[sum(run < made for run in runs)].append(variable)
    return [waves[key] for key in sorted(waves)]


def _rebinds(statement: ast.stmt, variables: list[Variable]) -> bool:
    """Whether `statement` puts something else into one of `variables`: `loader = DeviceLoader(loader, device)`."""
    if not isinstance(statement, ast.Assign):
        return False
    names = {ast.unparse(t) for target in statement.targets for t in (target.elts if isinstance(target, ast.Tuple) else [target])}
    making = {id(b.statement) for v in variables for b in v.bindings}
    return id(statement) not in making and any(v.text in names and statement.lineno > v.bindings[0].statement.lineno for v in variables)


def _block_for(context: Context, container: ast.AST, variable: Variable) -> list[ast.stmt]:
    """The outermost block inside `container` in which `variable` is surely bound after its bindings."""
    facts = context.facts
    statement, bound = variable.bindings[-1].statement, [*(b.statement for b in variable.bindings), *_other_bindings(variable)]
    block = facts.block(statement)
    if variable.anew:
        return block
    while (parent := facts.parents[statement]) is not container and isinstance(parent, ast.stmt):
        if isinstance(parent, ast.If) and not surely_bound(facts, bound, parent) and not _is_main_guard(parent):
            break
        if _is_main_guard(parent) or (isinstance(parent, ast.With | ast.If) and _is_used_after(context, variable, statement, block)):
            break
        statement = parent
        block = facts.block(statement)
    return block


def _other_bindings(variable: Variable) -> Iterator[ast.stmt]:
    """Assignments of something of which nothing is known, as `model = checkpoint["model"]`; not of `None`."""
    for node in ast.walk(variable.scope.node):
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant) and variable.text in map(ast.unparse, node.targets):
            yield node


def _is_used_after(context: Context, variable: Variable, statement: ast.stmt, block: list[ast.stmt]) -> bool:
    """Whether models run in the rest of `block`, where `variable` is bound by `statement`."""
    index = next(i for i, s in enumerate(block) if s is statement)
    later = [s for s in block[index + 1 :] if isinstance(s, RUNNABLE) and runs_models(context.facts, s)]
    return any(ast.unparse(node) == variable.text for s in later for node in ast.walk(s) if isinstance(node, ast.Name | ast.Attribute))


def _is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _anchor(context: Context, block: list[ast.stmt], variables: list[Variable]) -> ast.stmt:
    """The last statement of `block` that binds one of the variables, loads a state into it or draws its weights, before their first use in a loop."""
    texts = {v.text for v in variables}
    statements = {id(b.statement) for v in variables for b in v.bindings}
    last = 0
    for index, statement in enumerate(block):
        if any(id(node) in statements for node in ast.walk(statement)):
            last = index
    for index in range(last + 1, len(block)):
        if isinstance(block[index], RUNNABLE) and runs_models(context.facts, block[index]):
            break
        if _restores(context, block[index], texts) or initialises(context.facts, block[index], texts):
            last = index
        elif isinstance(block[index], ast.For | ast.While | ast.FunctionDef | ast.ClassDef) or _calls_with(block[index], texts):
            break
    return block[last]


def _restores(context: Context, statement: ast.stmt, texts: set[str]) -> bool:
    """Whether `statement` loads a state dict into one of the objects, and stays."""
    return any(
        isinstance(n, ast.Call) and n not in context.states.restored and isinstance(n.func, ast.Attribute) and n.func.attr == "load_state_dict" and any(t in ast.unparse(n.func.value) for t in texts)
        for n in ast.walk(statement)
    )


def _calls_with(statement: ast.stmt, texts: set[str]) -> bool:
    return any(isinstance(n, ast.Call) and any(ast.unparse(a) in texts for a in n.args) for n in ast.walk(statement))


def _in_place(context: Context, site: ast.Call, role: Role) -> Iterator[Edit | Finding]:
    """An object without a variable of its own is prepared where it is made."""
    try:
        call = context.say("@accelerator@.prepare", site)
    except Unreachable:
        yield out_of_reach(context, site)
        return
    yield ReplaceExpression(source=context.source(site), rule=ID, why=WHY, node=site, template=f"{call}({{x}})", parts={"x": Inner(site)})
