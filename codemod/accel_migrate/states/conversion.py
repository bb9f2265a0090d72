"""Which of a script's checkpoints become states of the accelerator: all that a training goes on from, or none."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding
from accel_migrate.facts.classes import find_method
from accel_migrate.facts.values import Instance, Role
from accel_migrate.opened import opened
from accel_migrate.same_file import same_file
from accel_migrate.states.files import check_files, check_weights, copies
from accel_migrate.states.loaded import (
    Loaded,
    is_of_training,
    latest,
    loaded_files,
)
from accel_migrate.states.problem import Unconvertible
from accel_migrate.states.restoring import check_load
from accel_migrate.states.saved import Entry, Saved, assignments, is_saved_by_itself, saved_checkpoints, sites_of


@dataclass(eq=False)
class States:
    """What is converted.

    Attributes:
        weights: loads of the model alone from such a checkpoint.
        registered: statement that makes an object -> its name, for `register_for_checkpointing`.
        scalers: the same of gradient scalers, which are registered if the script keeps them.
        copies: calls that copy a checkpoint which has just been saved.
        left_out: entries that no state holds and nothing reads.
        problem: why nothing is converted.
        edits: what the rule does, once it is known where objects are prepared.
    """

    saved: list[Saved] = field(default_factory=list)
    loaded: list[Loaded] = field(default_factory=list)
    weights: list[Loaded] = field(default_factory=list)
    registered: dict[ast.stmt, str] = field(default_factory=dict)
    scalers: dict[ast.stmt, str] = field(default_factory=dict)
    copies: list[ast.Call] = field(default_factory=list)
    left_out: list[Entry] = field(default_factory=list)
    problem: Unconvertible | None = None
    edits: list[Edit | Finding] = field(default_factory=list)

    @property
    def calls(self) -> set[ast.Call]:
        """The calls of torch that go."""
        return {s.call for s in self.saved} | {c for loaded in (*self.loaded, *self.weights) for c in loaded.calls}

    @property
    def restored(self) -> set[ast.Call]:
        """The calls of `load_state_dict` that go."""
        return {r.call for loaded in self.loaded for r in loaded.restored}

    def counters(self, saved: Saved) -> list[Entry]:
        """The entries that become counters."""
        return [e for e in saved.entries() if e.object is None and e not in self.left_out]


def states(context: Context) -> States:
    """The conversion of the program's checkpoints; with its `problem` where there is one, and nothing else."""
    if context.options.checkpoint != "state" or not context.dialect.exact:
        return States()
    try:
        return _converted(context)
    except Unconvertible as problem:
        return States(problem=problem)


def _converted(context: Context) -> States:
    files = list(loaded_files(context))
    saved = saved_checkpoints(context, {read.key for loaded in files for read in loaded.reads})
    if not saved:
        _refuse_unseen(context, files)
        return States()
    if context.distributed:
        raise Unconvertible(
            saved[0].call,
            "the script is written for several processes already",
            "call save_state and load_state on all of them by hand",
        )
    result = States(saved)
    counters = {e.name for s in saved for e in s.entries() if e.object is None}
    for loaded in files:
        if is_of_training(context, loaded, counters):
            check_load(context, saved, loaded, counters)
            result.loaded.append(loaded)
        elif any(same_file(context, loaded.path, s.path) for s in saved):
            check_weights(context, loaded)
            result.weights.append(loaded)
    for each in saved:
        _check_save(context, result, each)
    result.copies = list(copies(context, result.saved))
    check_files(context, result.saved, result.copies)
    return result


def _refuse_unseen(context: Context, files: list[Loaded]) -> None:
    """A training goes on from a file, and nothing is seen that writes it."""
    for loaded in files:
        if is_of_training(context, loaded, set()):
            raise Unconvertible(
                loaded.calls[0],
                "what is saved is not written down as a dictionary with the states in it",
                'write it so: torch.save({"epoch": epoch, "model": model.state_dict(), ...}, path)',
            )


# -- saving -------------------------------------------------------------------------------------------
def _check_save(context: Context, result: States, saved: Saved) -> None:
    if not context.accelerator.is_reachable(saved.call):
        raise Unconvertible(
            saved.call,
            "the accelerator cannot be had where a checkpoint is saved",
            "save it where the training loop is",
        )
    if opened(context, saved.path)[0] is not saved.path:
        raise Unconvertible(saved.call, "the checkpoint is written to an open file", "pass its path to torch.save")
    read = {r.key for loaded in result.loaded for r in loaded.reads}
    for entry in saved.entries():
        if entry.object is not None:
            _check_object(context, result, entry)
        elif context.facts.has_role(entry.value, Role.NAMESPACE) and entry.name not in read:
            result.left_out.append(entry)
        elif _holds_states(entry.value):
            raise Unconvertible(
                entry.value,
                f"the states in {entry.name!r} are not those of one object",
                "give each object a key of its own",
            )
    if saved.held is not None:
        _check_held(context, saved, saved.held)


def _holds_states(value: ast.expr) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "state_dict" for n in ast.walk(value))


def _check_held(context: Context, saved: Saved, held: ast.Name) -> None:
    """What else is done with the dictionary: its counters may be read and set."""
    states = {e.name for e in saved.entries() if e.object is not None}
    given: set[ast.stmt] = set(assignments(context, held))
    loads = {s for s in given if isinstance(s, ast.Assign) and context.facts.external.get(s.value) == "torch.load"}  # type: ignore[call-overload]
    for node in context.facts.names(context.facts.function(held), held.id):
        if loads and latest(context, node, given) in loads:
            continue  # the dictionary of an earlier checkpoint
        parent = context.facts.parents[node]
        if (
            isinstance(parent, ast.Subscript)
            and isinstance(parent.slice, ast.Constant)
            and parent.slice.value not in states
        ):
            statement = context.facts.statement(parent)
            if not (
                isinstance(parent.ctx, ast.Store)
                and isinstance(statement, ast.Assign)
                and _holds_states(statement.value)
            ):
                continue
        if (
            isinstance(node.ctx, ast.Store)
            or isinstance(parent, ast.arg)
            or (isinstance(parent, ast.Call) and context.facts.external.get(parent) == "torch.save")
        ):
            continue
        raise Unconvertible(
            node, f"`{held.id}` is used for more than to save it", "save what else is needed in a file of its own"
        )


def _check_object(context: Context, result: States, entry: Entry) -> None:
    """An object that is not prepared is registered where it is made."""
    assert entry.object is not None
    sites = sites_of(context, entry.object)
    of_scaler = context.facts.has_role(entry.object, Role.SCALER)
    if is_saved_by_itself(context, entry.object) and not of_scaler:
        return
    statement = context.facts.statement(next(iter(sites))) if len(sites) == 1 else None
    target = (
        statement.targets[0]
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.value in sites
        else None
    )
    if of_scaler and target is None:
        return
    if (
        not isinstance(target, ast.Name | ast.Attribute)
        or not context.accelerator.is_reachable(statement)
        or not _can_load(context, entry.object)
    ):  # type: ignore[arg-type]
        raise Unconvertible(
            entry.value,
            f"what {entry.name!r} is the state of is neither prepared nor made in a place where it can be registered",
            "call accelerator.register_for_checkpointing with the object, and save_state and load_state by hand",
        )
    (result.scalers if of_scaler else result.registered)[statement] = ast.unparse(target)  # type: ignore[index]


def _can_load(context: Context, node: ast.expr) -> bool:
    """Whether the object has `load_state_dict` beside `state_dict`."""
    values = [v for v in context.facts.of(node) if isinstance(v, Instance) and context.facts.role(v) is not Role.MODEL]
    return all(find_method(context.facts, v.cls.node, "load_state_dict") for v in values)
