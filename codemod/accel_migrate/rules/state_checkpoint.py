"""With `--checkpoint state`: training checkpoints become states of the accelerator, from which a run goes on in mid-epoch.

`torch.save({...}, path)` becomes `save_state(path)`: what is prepared is in the state anyhow, plain values become counters,
other objects are registered. `checkpoint = torch.load(path)` becomes `load_state(path)`, below the preparation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import AddImport, DeleteStatement, Edit, Finding, InsertAfter, Severity
from accel_migrate.plan import Plan
from accel_migrate.same_file import same_file
from accel_migrate.states.conversion import States
from accel_migrate.states.loaded import Loaded, emptied
from accel_migrate.states.moving import below_preparation
from accel_migrate.states.progress import Progress
from accel_migrate.states.saved import Entry, Saved
from accel_migrate.states.ticks import late_ticks

ID = "state-checkpoint"
TITLE = "With --checkpoint state: save and load states instead of files"
WHY = "a state holds everything, and the run goes on with the next batch"
_WIDE = 80


def apply(context: Context) -> Iterator[Edit | Finding]:
    states = context.states
    if states.problem is not None:
        message = f"checkpoints keep their file format: {states.problem}"
        yield Finding(
            source=context.source(states.problem.node),
            node=states.problem.node,
            rule=ID,
            message=message,
            advice=states.problem.advice,
        )
    for entry in states.left_out:
        message = f"{entry.name!r} is in no state, which holds tensors and plain values, and nothing here reads it"
        advice = f"where it is wanted: accelerator.counters[{entry.name!r}] = vars(...)"
        yield Finding(
            source=context.source(entry.value),
            node=entry.value,
            rule=ID,
            message=message,
            advice=advice,
            severity=Severity.INFO,
        )
    if states.saved and not states.loaded:
        saved = states.saved[0].call
        message, advice = (
            "nothing loads the state that is saved here",
            "after accelerator.prepare: accelerator.load_state(FOLDER)",
        )
        yield Finding(
            source=context.source(saved), node=saved, rule=ID, message=message, advice=advice, severity=Severity.INFO
        )
    for tick in dict.fromkeys(tick for saved in states.saved for tick in late_ticks(context, saved)):
        message = "this step of the scheduler comes after the state is saved: a run that goes on from it goes on with the next epoch, and misses it"
        yield Finding(
            source=context.source(tick),
            node=tick,
            rule=ID,
            message=message,
            advice="step the scheduler before save_state",
        )
    states.edits = list(_edits(context, states))  # asks for the accelerator, which has to be known before `finish`


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    kept = {s for s in context.states.scalers if not plan.is_removed(s)}
    gone = {s for s in context.states.scalers if s not in kept}
    yield from (e for e in context.states.edits if not (isinstance(e, InsertAfter) and e.node in gone))
    for loaded in context.states.loaded:
        yield from below_preparation(context, plan, loaded, ID, WHY)


def _edits(context: Context, states: States) -> Iterator[Edit | Finding]:
    for saved in states.saved:
        yield from _save(context, states, saved)
    for call in states.copies:
        target = call.args[1] if len(call.args) > 1 else next(k.value for k in call.keywords if k.arg == "dst")
        yield context.replace(ID, call, context.say("@accelerator@.save_state({target})", call), WHY, target=target)
    for statement, text in (*states.registered.items(), *states.scalers.items()):
        template = context.say(f"@accelerator@.register_for_checkpointing({text})", statement)
        yield InsertAfter(source=context.source(statement), rule=ID, why=WHY, node=statement, template=template)
    for loaded in states.loaded:
        yield from _load(context, loaded)
    for loaded in states.weights:
        yield from _load_weights(context, loaded)
    if states.saved:
        yield from _looks(context, states)
        yield from Progress(context, states, ID, WHY).edits()


# -- saving -------------------------------------------------------------------------------------------
def _save(context: Context, states: States, saved: Saved) -> Iterator[Edit]:
    statement = context.facts.statement(saved.call)
    parts: dict[str, ast.AST] = {"path": saved.path}
    lines = []
    if saved.held is not None:
        lines.append("@accelerator@.counters.update({state})")
        parts["state"] = saved.held
    elif counters := states.counters(saved):
        lines.append(f"@accelerator@.counters.update({_arguments(context, counters, parts)})")
    lines.append("@accelerator@.save_state({path})")
    template = context.say("\n".join(lines), saved.call)
    yield DeleteStatement(source=context.source(saved.call), rule=ID, why=WHY, node=statement)
    yield InsertAfter(
        source=context.source(saved.call), rule=ID, why=WHY, node=statement, template=template, parts=parts
    )
    if saved.held is not None:
        for node, entries in saved.written.items():
            yield from _pruned(context, states, node, entries)


def _arguments(context: Context, counters: list[Entry], parts: dict[str, ast.AST]) -> str:
    """`epoch=epoch, best=best`, or a dictionary where a key is no name."""
    if not all(entry.name.isidentifier() for entry in counters):
        return _items(context, counters, parts, "")
    parts.update({f"v{i}": entry.value for i, entry in enumerate(counters)})
    items = [f"{entry.name}={{v{i}}}" for i, entry in enumerate(counters)]
    length = sum(len(context.facts.text(entry.value)) + len(entry.name) + 3 for entry in counters)
    return ", ".join(items) if length < _WIDE else "\n    " + ",\n    ".join(items) + ",\n"


def _items(context: Context, kept: list[Entry], parts: dict[str, ast.AST], indent: str) -> str:
    """A dictionary of `kept`, which is on one line if it is short."""
    parts.update({f"v{i}": entry.value for i, entry in enumerate(kept)})
    parts.update({f"k{i}": entry.key for i, entry in enumerate(kept)})
    items = [f"{{k{i}}}: {{v{i}}}" for i in range(len(kept))]
    length = sum(len(context.facts.text(e.value)) + len(e.name) + 6 for e in kept)
    inside = ", ".join(items) if length < _WIDE else f"\n{indent}    " + f",\n{indent}    ".join(items) + f",\n{indent}"
    return f"{{{{{inside}}}}}"


def _pruned(context: Context, states: States, node: ast.Dict, entries: list[Entry]) -> Iterator[Edit]:
    """The dictionary without what the state holds anyhow."""
    kept = [e for e in entries if e.object is None and e not in states.left_out]
    if len(kept) == len(entries):
        return
    parts: dict[str, ast.AST] = {}
    statement = context.facts.statement(node)
    indent = " " * (node.col_offset if node.lineno > statement.lineno else statement.col_offset)
    template = _items(context, kept, parts, indent)
    yield context.replace(ID, node, template, WHY, **parts)


# -- loading ------------------------------------------------------------------------------------------
def _load(context: Context, loaded: Loaded) -> Iterator[Edit]:
    for statement, call in zip(loaded.statements, loaded.calls, strict=True):
        template = context.say("@accelerator@.load_state({path})", call)
        yield DeleteStatement(source=context.source(call), rule=ID, why=WHY, node=statement)
        path = call.args[0] if call.args else call.keywords[0].value
        yield InsertAfter(
            source=context.source(call), rule=ID, why=WHY, node=statement, template=template, parts={"path": path}
        )
    for statement in emptied(context, loaded):
        yield DeleteStatement(source=context.source(statement), rule=ID, why=WHY, node=statement)
    for read in loaded.reads:
        yield context.replace(ID, read.name, context.say("@accelerator@.counters", read.name), WHY)


def _load_weights(context: Context, loaded: Loaded) -> Iterator[Edit]:
    (restored,) = loaded.restored
    for statement in (*loaded.statements, *loaded.dropped):
        yield DeleteStatement(source=context.source(statement), rule=ID, why=WHY, node=statement)
    template = context.say("@accelerator@.load_model({model}, {path})", restored.call)
    yield context.replace(ID, restored.call, template, WHY, model=restored.object, path=loaded.path)


def _looks(context: Context, states: States) -> Iterator[Edit]:
    """`os.path.isfile(path)` asks for anything there now: a file of the original is an error of `load_state`, and not passed over."""
    paths = [*(s.path for s in states.saved), *(loaded.path for loaded in (*states.loaded, *states.weights))]
    for call in context.calls_of("os.path.isfile"):
        if call.args and any(same_file(context, call.args[0], path) for path in paths):
            if isinstance(call.func, ast.Attribute):
                yield context.replace(ID, call.func, f"{ast.unparse(call.func.value)}.exists", WHY)
            else:
                yield context.replace(ID, call.func, "os.path.exists", WHY)
                yield AddImport(source=context.source(call), rule=ID, module="os")
    for _, node in context.facts.nodes(ast.Call):
        asks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "is_file"
        if asks and any(same_file(context, node.func.value, path) for path in paths):  # type: ignore[attr-defined]
            yield context.replace(ID, node.func, "{path}.exists", WHY, path=node.func.value)  # type: ignore[attr-defined]
