"""The objects of a training program: what each was taken for, and what it was taken for that by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.explain.said import Said, indefinite, listed, places, quoted, said
from accel_migrate.facts.facts import Facts
from accel_migrate.facts.models import enclosing_model
from accel_migrate.facts.sequence import in_order
from accel_migrate.facts.values import Instance, Made, Role
from accel_migrate.source import Source

NAMES = {
    Role.CRITERION: "loss function",
    Role.LOADER: "data loader",
    Role.SCHEDULER: "learning rate scheduler",
    Role.METRIC_SCHEDULER: "learning rate scheduler that follows a metric",
    Role.DEVICE: "device",
    Role.NAMESPACE: "namespace of settings",
    Role.WRITER: "writer of logs",
    Role.STATE: "saved state",
}
_NEEDED = {
    Role.MODEL: "no model was recognised: nothing had its parameters given to an optimizer",
    Role.OPTIMIZER: "no optimizer was recognised: none is made by torch.optim, or by something that could be followed there",
    Role.LOADER: "no data loader was recognised: none is made by torch.utils.data, or by something that could be followed there",
}
_REDUCTIONS = {
    "'mean'": "the mean over the rows of the batch",
    "'sum'": "the sum over the rows of the batch",
    "'none'": "one loss for each row of the batch",
}
_LEFT_OUT = {Role.SHAPE, Role.OBJECT, Role.GRADIENTS, Role.PARAMETERS}


def objects(facts: Facts) -> Iterator[Said]:
    """One sentence for each variable that holds something which plays a part in training."""
    names = _names(facts)
    for binding in facts.bindings:
        roles = {role for value in binding.values if (role := facts.role(value)) is not None} - _LEFT_OUT
        if roles and enclosing_model(facts, binding.statement) is None:
            what = listed(sorted(indefinite(NAMES.get(role, role.value)) for role in roles), "or")
            reasons = dict.fromkeys(reason for value in in_order(binding.values) if (reason := _reason(facts, value, names, binding.scope.source)))
            why = f": {'; '.join(reasons)}" if reasons else ""
            yield said(f"{quoted(binding.target)} is {what}{why}", binding.scope.source, binding.statement)


def missing(facts: Facts) -> Iterator[Said]:
    """What a training program has and this one seems to lack."""
    found = {facts.role(value) for values in facts.values.values() for value in values}
    yield from (Said(text) for role, text in _NEEDED.items() if role not in found)
    if not facts.backwards:
        yield Said("no training step was recognised: nothing calls backward() on a loss")


def _names(facts: Facts) -> dict[ast.AST, str]:
    """Where objects are made -> the first variable that holds them."""
    names: dict[ast.AST, str] = {}
    for binding in facts.bindings:
        for value in binding.values:
            if isinstance(value, Made | Instance) and len(binding.values) == 1:
                names.setdefault(value.site, quoted(binding.target))
    return names


def _reason(facts: Facts, value: object, names: dict[ast.AST, str], source: Source) -> str:
    """Why `value` was taken for what it is, and what it belongs to."""
    if not isinstance(value, Made | Instance):
        return ""
    role = facts.role(value)
    parts = [_origin(facts, value)]
    if role is Role.MODEL:
        parts.append(_training(facts, value, names))
    elif role is Role.OPTIMIZER:
        parts.append(_trained(facts, value, names))
    elif role is Role.LOADER:
        parts.append(_loops(facts, value, source))
    elif role is Role.CRITERION:
        parts.append(_reduction(value))
    return ", ".join(filter(None, parts))


def _origin(facts: Facts, value: Made | Instance) -> str:
    if isinstance(value, Instance):
        bases = [base for base in facts.bases.get(value.cls.node, ()) if isinstance(base, str)]
        derived = f", which derives from {listed(bases)}" if bases else ""
        return f"of the class {value.cls.node.name}{derived}"
    if value.detail:
        library = value.detail.removeprefix("iter:")
        return f"made by {library}" if "." in library or library.isidentifier() else f"the name of one, {library}"
    return "known by its methods, since its class is not in sight" if value.site in facts.proven_models else ""


def _reduction(value: Made | Instance) -> str:
    """What a loss function of torch does with the losses of the rows."""
    if not isinstance(value, Made) or not isinstance(value.site, ast.Call) or not value.detail.startswith("torch.nn."):
        return ""
    given = {keyword.arg: keyword.value for keyword in value.site.keywords}
    reduction = given.get("reduction", ast.Constant("mean"))
    if given.keys() & {"weight", "ignore_index"} and ast.unparse(reduction) == "'mean'":
        return "the mean over what counts: class weights or ignored targets change the denominator"
    return _REDUCTIONS.get(ast.unparse(reduction), "")


def _training(facts: Facts, value: Made | Instance, names: dict[ast.AST, str]) -> str:
    owners = [site for site, models in facts.optimized.items() if value.site in models]
    if owners:
        optimizers = [names[site] for site in owners if site in names]
        return f"trained by {listed(optimizers)}" if optimizers else "trained: an optimizer has its parameters"
    if value.site in facts.trained_models():
        return "trained as a part of another model, or through a part of its own"
    return "not trained: no optimizer has its parameters"


def _trained(facts: Facts, value: Made | Instance, names: dict[ast.AST, str]) -> str:
    models = [names[site] for site in facts.optimized.get(value.site, ()) if site in names]
    return f"for the parameters of {listed(sorted(models))}" if models else ""


def _loops(facts: Facts, value: Made | Instance, source: Source) -> str:
    if value in facts.looked_at:
        return "its batches reach no model, or only the main process reads it, so it stays as it is"
    loops = [loop.node for loop in facts.loops.values() if isinstance(loop.node, ast.For) and value in loop.loaders]
    if loops:
        return f"read by the loop{'s' * (len(loops) > 1)} in {places(facts, loops, source)}"
    return "its batches are taken by next()" if value in facts.drawn else ""
