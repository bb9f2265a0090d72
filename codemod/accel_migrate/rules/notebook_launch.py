"""Training in a notebook is started on several processes by `notebook_launcher`.

https://huggingface.co/docs/accelerate/basic_tutorials/notebook
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import AddImport, DeleteStatement, Edit, Finding, Severity
from accel_migrate.facts.device import DeviceChoice
from accel_migrate.facts.scopes import Scope
from accel_migrate.notebook.launch import RULE, Launch
from accel_migrate.notebook.left_behind import left_behind
from accel_migrate.plan import Plan

ID = RULE
TITLE = "Launch the training of a notebook on several processes"
WHY = "a notebook is one process, which starts the others"
FINDINGS = {"notebook-processes": "Report notebooks whose training cannot be launched on several processes"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    entry = context.facts.entry
    if entry is None or entry.notebook is None or context.options.as_script:
        return
    if context.launch is None:
        yield _on_one_process(context)
        return
    yield AddImport(source=entry, rule=ID, why=WHY, module=context.dialect.module, names=("notebook_launcher",))
    for call in context.launch.calls:
        yield from _launched(context, call)
    for node, name in left_behind(context.facts, context.launch):
        yield Finding(
            source=context.source(node),
            node=node,
            rule="notebook-processes",
            severity=Severity.WARNING,
            message=f"what is put into `{name}` here stays in the launched process: other cells do not see it",
            advice=f"return `{name}` from the launched function, and take it from there",
        )


def finish(context: Context, plan: Plan) -> Iterator[Edit]:
    """Inside, a device chosen in another cell is that of one process: what still reads it asks the accelerator."""
    for choice in context.home.others if context.launch is not None else ():
        if isinstance(choice.target, ast.Name) and context.facts.scope(choice.statement).parent is None:
            yield from _device_reads(context, context.launch, choice, plan)


def _launched(context: Context, call: ast.Call) -> Iterator[Edit]:
    """`train(model, lr=0.1)` -> `notebook_launcher(train, (model, 0.1), num_processes=2)`."""
    (function,) = context.facts.callees[call]
    given = _in_order(call, function)  # type: ignore[arg-type]
    parts: dict[str, ast.AST] = {"f": call.func}
    what = "{f}"
    if given is None:
        given = call.args
        keywords = {f"k{number}": keyword for number, keyword in enumerate(call.keywords)}
        parts |= {key: keyword.value for key, keyword in keywords.items()}
        what = f"partial({{f}}, {', '.join(f'{keyword.arg}={{{key}}}' for key, keyword in keywords.items())})"
        yield AddImport(source=context.source(call), rule=ID, why=WHY, module="functools", names=("partial",))
    parts |= {f"a{number}": argument for number, argument in enumerate(given)}
    names = [f"{{a{number}}}" for number in range(len(given))]
    arguments = f"({', '.join(names)}{',' if len(names) == 1 else ''}), " if names else ""
    yield context.replace(ID, call, f"notebook_launcher({what}, {arguments}num_processes=2)", WHY, **parts)


def _in_order(call: ast.Call, function: ast.FunctionDef) -> list[ast.expr] | None:
    """The arguments by position; None where some can only be passed by name."""
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    following = names[len(call.args) : len(call.args) + len(keywords)]
    return [*call.args, *(keywords[name] for name in following)] if set(following) == set(keywords) else None


def _device_reads(context: Context, launch: Launch, choice: DeviceChoice, plan: Plan) -> Iterator[Edit]:
    facts = context.facts
    read_outside = False
    for _, node in facts.nodes(ast.Name):
        assert isinstance(node, ast.Name)
        if node.id != choice.target.id or not isinstance(node.ctx, ast.Load) or not _is_global(facts.scope(node), node.id):  # type: ignore[attr-defined]
            continue
        if launch.runs(facts, node) and context.accelerator.is_at_hand(node):
            if not plan.is_removed(node):
                yield context.replace(ID, node, context.say(context.device_of("@accelerator@", choice), node), WHY)
        else:
            read_outside = True
    if not read_outside:
        source = context.source(choice.statement)
        yield DeleteStatement(source=source, rule=ID, why="no longer read", node=choice.statement)


def _is_global(scope: Scope, name: str) -> bool:
    owner = scope.owner(name)
    return owner is not None and owner.parent is None


def _on_one_process(context: Context) -> Finding:
    entry = context.facts.entry
    assert entry is not None
    backward = next((b.call for b in context.facts.backwards.values() if b.with_loader), entry.tree)
    name = entry.path.name
    nothing = "" if context.dialect.launcher_returns else " that uses nothing it returns (let it save the model)"
    return Finding(
        source=context.source(backward),
        node=backward,
        rule="notebook-processes",
        severity=Severity.WARNING,
        message="in a notebook this trains on one process: only a function that makes everything it trains can be launched on several",
        advice=f"make the loader, the model and the optimizer in the function that trains, call it from a cell{nothing} and migrate again; "
        f"or export a script: accel-migrate {name} --output {entry.path.stem}.py",
    )
