"""Optimizers that step outside of all loops over loaders, on losses of whole data: `LBFGS([temperature])` on collected logits.

Every process takes the same steps, and there are no gradients to average.
"""

from __future__ import annotations

import ast

from accel_migrate.facts.facts import Facts
from accel_migrate.facts.values import locals_of


def steps_on_whole_data(facts: Facts, optimizer: ast.AST) -> bool:
    """Whether the optimizer made at `optimizer` only takes steps for which no process's rows are needed."""
    steps = [call for call, (base, name) in facts.methods.items() if name == "step" and any(getattr(v, "site", None) is optimizer for v in base)]
    return bool(steps) and not any(_in_batches(facts, call, set()) or _has_local_losses(facts, call) for call in steps)


def _has_local_losses(facts: Facts, call: ast.AST) -> bool:
    """Whether a backward pass in the function that holds `call`, or in none of it, starts from figures of a process's rows."""
    function = facts.function(call)
    passes = [b for b in facts.backwards.values() if b.call is not call and facts.inside(b.call, function)]
    return not passes or any(b.with_loader or locals_of(b.values) for b in passes)


def _in_batches(facts: Facts, node: ast.AST, seen: set[ast.AST]) -> bool:
    """Whether `node` runs inside a loop over a loader, in its function or in a caller."""
    if any(ancestor in facts.loops for ancestor in facts.ancestors(node)):
        return True
    function = facts.function(node)
    if function in seen:
        return False
    seen.add(function)
    return any(_in_batches(facts, call, seen) for call in facts.callers.get(function, {}))  # type: ignore[call-overload]
