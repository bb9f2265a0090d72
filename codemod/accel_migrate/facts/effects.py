"""What running bodies write into the facts: one function for each kind, so that traces can do it again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accel_migrate.facts.facts import Binding, Conversion
from accel_migrate.facts.joined import rows_in
from accel_migrate.facts.scopes import FunctionNode, Scope
from accel_migrate.facts.values import UNKNOWN, Spread, Values, locals_of

if TYPE_CHECKING:
    from accel_migrate.facts.machine import Machine
    from accel_migrate.source import Source


def note_external(machine: Machine, call: ast.Call, name: str) -> None:
    machine.facts.external[call] = name


def note_method(machine: Machine, call: ast.Call, base: Values, name: str) -> None:
    old, _ = machine.facts.methods.get(call, (UNKNOWN, name))
    machine.facts.methods[call] = (old | base, name)


def note_callee(machine: Machine, call: ast.Call, function: FunctionNode) -> None:
    machine.facts.callees[call].add(function)


def note_caller(machine: Machine, function: FunctionNode, call: ast.Call, scope: Scope) -> None:
    machine.facts.callers[function][call] = scope


def note_construction(machine: Machine, cls: ast.ClassDef, call: ast.Call, scope: Scope) -> None:
    machine.facts.constructions[cls][call] = scope


def note_called_back(machine: Machine, function: ast.AST) -> None:
    machine.facts.called_back.add(function)


def note_part(machine: Machine, part: ast.AST, whole: ast.AST) -> None:
    machine.facts.parts_of[part].add(whole)


def note_conversion(machine: Machine, node: ast.expr, values: Values, scope: Scope, how: str) -> None:
    if node not in machine.facts.conversions:
        machine.facts.conversions[node] = Conversion(node, values, scope, how, machine.evaluator._statement(node))


def note_binding(
    machine: Machine, statement: ast.stmt, target: ast.expr, values: Values, scope: Scope, loops: tuple[ast.stmt, ...]
) -> None:
    machine.order += 1
    machine.facts.bindings.append(Binding(statement, target, values, scope, machine.order, loops))


def note_trainable(machine: Machine) -> None:
    machine.trains_tensors = True


def note_global(machine: Machine, owner: Scope, name: str, values: Values) -> None:
    """A function binds `name` of the module `owner`, whose body goes on after the call."""
    if owner in machine.module_frames:
        env = machine.module_frames[owner].env
        env[name] = env.get(name, UNKNOWN) | values


def note_entry(machine: Machine, site: ast.AST, node: ast.expr) -> None:
    """`node` is written into the container made at `site`."""
    machine.evaluator._entries[site][node] = None


def copy_entries(machine: Machine, source: ast.AST, target: ast.AST) -> None:
    """What is written into the container made at `source` comes into that made at `target`."""
    from accel_migrate.facts.records import written

    entries = machine.evaluator._entries
    entries[target] |= dict.fromkeys((*written(source), *entries[source]))


# -- questions ------------------------------------------------------------------------------------
def external_name(machine: Machine, call: ast.expr) -> str | None:
    """The full name of the library's function that `call` was found to call in this pass."""
    return machine.facts.external.get(call)  # type: ignore[call-overload]


def module_named(machine: Machine, name: str) -> Source | None:
    """The file of the module `name`, if it is one of the project."""
    return machine.project_module(name, None)  # type: ignore[attr-defined]


def calls_library(machine: Machine, last: str) -> bool:
    """Whether this pass has found a call of a library's function `last`."""
    return any(name.rpartition(".")[2] == last for name in machine.facts.external.values())


def collates(machine: Machine) -> bool:
    """Whether this pass has found a call of a library that is given its own `collate_fn`."""
    return any(k.arg == "collate_fn" for call in machine.facts.external for k in call.keywords)


def has_rows(machine: Machine, *given: Values) -> bool:
    """Whether rows of a batch are among `given`, or in a container among them."""
    return any(v.spread is Spread.SHARD for values in given for v in locals_of(machine.evaluator._deep(values)))


def joined_rows(machine: Machine, node: ast.expr) -> ast.expr:
    return rows_in(machine.facts, node)


def losses_in(machine: Machine, scope: Scope) -> tuple[ast.expr, ...]:
    """The losses whose backward passes start in the function `scope`."""
    return tuple(b.loss for b in machine.facts.backwards.values() if b.scope is scope)


def reaches_backward(machine: Machine, target: ast.expr) -> bool:
    return machine.evaluator.goes_into_losses(target)


def calls_project(machine: Machine, call: ast.Call) -> bool:
    """Whether `call` was ever found to call a function of the project."""
    return call in machine.facts.callees


def marks_ignored(machine: Machine) -> bool:
    return machine.evaluator.calls.library.find_marks()
