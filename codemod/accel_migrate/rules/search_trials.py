"""Searches for settings whose trials train: every process would search for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding
from accel_migrate.facts.values import Function
from accel_migrate.side_effects import runs_models

ID = "search-trials"
TITLE = "Report searches whose trials are drawn by each process for itself"
WHY = "processes of one training must train with the same settings"
SEARCHES = {
    "hyperopt.fmin",
    "wandb.agent",
    "ray.tune.run",
    "ray.tune.Tuner",
    "skopt.gp_minimize",
    "skopt.forest_minimize",
}


def apply(context: Context) -> Iterator[Edit | Finding]:
    facts = context.facts
    if not facts.backwards:
        return
    for _, call in facts.nodes(ast.Call):
        assert isinstance(call, ast.Call)
        handed = [
            v.node
            for a in (*call.args, *(k.value for k in call.keywords))
            for v in facts.of(a)
            if isinstance(v, Function)
        ]
        if _searches(context, call) and any(runs_models(facts, function) for function in handed):
            yield Finding(
                source=context.source(call), node=call, rule=ID,
                message="each process draws trials of its own here, and they train together: models with different settings wait for each other or are averaged",
                advice="let the main process draw the settings of a trial and hand them to all: broadcast_object_list([settings]), or optuna's TorchDistributedTrial; report results on the main process",
            )  # fmt: skip


def _searches(context: Context, call: ast.Call) -> bool:
    """Whether `call` runs a function once for each trial: `study.optimize(objective)`, `fmin(objective, ...)`."""
    if context.facts.external.get(call) in SEARCHES:
        return True
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "optimize":
        return False
    made = (getattr(v, "site", None) for v in context.facts.of(call.func.value))
    return any(
        context.facts.external.get(site, "").startswith("optuna.") for site in made if isinstance(site, ast.Call)
    )
