"""The accelerator is made where the device was chosen, and passed to where it is needed.

`device = torch.device(...)` becomes the accelerator. A device variable whose uses all vanish goes; otherwise it reads
`accelerator.device`, or that device's name where the script needs a string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import NAME
from accel_migrate.context import Context
from accel_migrate.edits import (
    AddArgument,
    AddImport,
    DeleteStatement,
    Edit,
    Finding,
    InsertBefore,
    ReplaceExpression,
    ReplaceStatement,
)
from accel_migrate.facts import catalog
from accel_migrate.facts.device import DeviceChoice, wants_cpu
from accel_migrate.facts.device_text import is_looked_up
from accel_migrate.facts.distributed import process_group_calls
from accel_migrate.facts.scopes import Scope
from accel_migrate.facts.values import Role
from accel_migrate.plan import Plan

ID = "accelerator"
TITLE = "Make the accelerator where the device was chosen"
WHY = "the accelerator knows the processes and their devices"


def apply(context: Context) -> Iterator[Edit | Finding]:
    """The accelerator itself is placed in `finish`, when all its uses are known."""
    if context.home.existing:
        return
    yield AddImport(source=context.home.source, rule=ID, why=WHY, module=context.dialect.module, names=("Accelerator",))
    if context.dialect.whole_batches_need and not context.distributed:
        names = (context.dialect.whole_batches_need,)
        yield AddImport(source=context.home.source, rule=ID, why=WHY, module=context.dialect.utils_module, names=names)


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    yield from context.accelerator.edits()
    yield from _renamed_parameters(context, plan)
    yield from _completed(context) if context.home.existing else _create(context, plan)
    for choice in context.home.others:
        if not plan.is_removed(choice.statement):
            yield from _device_line(context, plan, choice, keep=True)
    yield from context.accelerator.import_edits()
    yield from _leftovers(context, plan)


def _renamed_parameters(context: Context, plan: Plan) -> Iterator[Edit]:
    """In a function whose device parameter became the accelerator, the remaining uses read its device."""
    for function, device in context.accelerator.parameters.items():
        if device is None:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id == device.arg and isinstance(node.ctx, ast.Load) and not plan.is_removed(node):
                yield context.replace(ID, node, context.device_at(NAME, node), WHY)


def _create(context: Context, plan: Plan) -> Iterator[Edit]:
    home = context.home
    name = f"{_self(home.scope)}.{NAME}" if home.attribute else NAME
    line = f"{name} = Accelerator({_literally(_arguments(context))})"
    anchor = _place(context, plan)
    choice = home.device
    if choice is None and _makes_group(context, anchor):
        yield ReplaceStatement(source=home.source, rule=ID, why=WHY, node=anchor, template=line)
        return
    if anchor is not home.anchor and _makes_group(context, home.anchor):
        yield DeleteStatement(source=home.source, rule=ID, why=WHY, node=home.anchor)
    if choice is None:
        yield InsertBefore(source=home.source, rule=ID, why=WHY, node=anchor, template=line)
        return
    device_line = _device_text(context, plan, choice, name)
    if anchor is choice.statement:
        template = line if device_line is None else f"{line}\n{device_line}"
        yield ReplaceStatement(source=home.source, rule=ID, why=WHY, node=anchor, template=template)
    else:
        yield InsertBefore(source=home.source, rule=ID, why=WHY, node=anchor, template=line)
        yield from _device_line(context, plan, choice, keep=False)


def _completed(context: Context) -> Iterator[Edit]:
    """The accelerator that the script makes gets the arguments that rules ask for and it lacks."""
    call = context.home.anchor.value  # type: ignore[attr-defined]
    given = {k.arg for k in call.keywords}
    for name, value in context.settings.items():
        if name not in given:
            yield AddArgument(source=context.home.source, rule=ID, why=WHY, node=call, value=value, keyword=name)


def _makes_group(context: Context, anchor: ast.stmt) -> bool:
    """Whether `anchor` is the plain `init_process_group(...)` that the accelerator replaces."""
    return isinstance(anchor, ast.Expr) and anchor.value in process_group_calls(context.facts)


def _literally(text: str) -> str:
    """`text` inside a template, in which braces are placeholders."""
    return text.replace("{", "{{").replace("}", "}}")


def _self(scope: Scope) -> str:
    return scope.node.args.args[0].arg  # type: ignore[attr-defined]


def _arguments(context: Context) -> str:
    settings = dict(context.settings)
    if context.home.cpu:
        settings["cpu"] = context.home.cpu
    if not context.distributed and "dataloader_config" not in settings:
        name, value = context.dialect.whole_batches
        settings[name] = value
    order = ("cpu", "mixed_precision", "gradient_accumulation_steps", "split_batches", "dataloader_config", "kwargs_handlers")
    return ", ".join(f"{key}={settings[key]}" for key in order if key in settings)


def _place(context: Context, plan: Plan) -> ast.stmt:
    """The statement at which the accelerator is made: the device choice, or an earlier one that needs it already."""
    home = context.home
    anchor = _at_level(context, home.anchor)
    block = context.facts.block(anchor)
    first = anchor
    for node in context.accelerator.uses:
        statement = _in_block(context, node, block)
        if statement is not None and statement.lineno < first.lineno and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            first = statement
    return first if _is_seeded(context) else _before_first_draw(context, block, first)


def _is_seeded(context: Context) -> bool:
    return any(context.facts.external[call].startswith("torch.") for call in context.calls_of(*catalog.SEEDERS))


def _before_first_draw(context: Context, block: list[ast.stmt], first: ast.stmt) -> ast.stmt:
    """Without a seed the processes draw alike only from the accelerator on: it comes before whatever may draw."""
    for statement in block:
        if statement is first:
            break
        begins = statement.lineno, statement.col_offset
        if begins >= context.home.earliest and not isinstance(statement, ast.FunctionDef | ast.ClassDef) and _may_draw(context, statement):
            return statement
    return first


def _may_draw(context: Context, statement: ast.stmt) -> bool:
    for call in ast.walk(statement):
        if isinstance(call, ast.Call):
            name = context.facts.external.get(call, "")
            if context.facts.callees.get(call) or name.startswith(("torch.", "numpy.random.", "random.", "sklearn.", "torchvision.")):
                return name not in catalog.AVAILABILITY
    return False


def _at_level(context: Context, statement: ast.stmt) -> ast.stmt:
    """`statement`, or the compound statement of the home's own body (or main guard) around it."""
    while True:
        parent = context.facts.parents[statement]
        if isinstance(parent, ast.If) and "__name__" in ast.unparse(parent.test):
            return statement
        if not isinstance(parent, ast.stmt) or isinstance(parent, ast.FunctionDef | ast.ClassDef):
            return statement
        statement = parent


def _in_block(context: Context, node: ast.AST, block: list[ast.stmt]) -> ast.stmt | None:
    ids = {id(s) for s in block}
    for current in (node, *context.facts.ancestors(node)):
        if id(current) in ids:
            return current  # type: ignore[return-value]
    return None


# -- the device variable ----------------------------------------------------------------------------
def _uses(context: Context, plan: Plan, choice: DeviceChoice) -> list[ast.expr]:
    """Reads of the device variable that no other edit removes."""
    text = ast.unparse(choice.target)
    attribute = _attribute(choice)
    item = ast.unparse(choice.target.slice) if isinstance(choice.target, ast.Subscript) else ""
    found = []
    for _, node in context.facts.nodes(ast.Name, ast.Attribute, ast.Subscript):
        if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
            continue
        if isinstance(node, ast.Subscript):
            same = ast.unparse(node.slice) == item
        elif attribute or item:
            same = isinstance(node, ast.Attribute) and node.attr == attribute
        else:
            same = isinstance(node, ast.Name) and node.id == text and context.facts.scope(node).owner(text) is choice.scope
        replaced = any(context.facts.inside(node, other.statement) for other in context.home.choices)
        unseen = isinstance(node, ast.Name) and not context.facts.of(node)  # in a branch that the settings at hand skip
        if same and (unseen or context.facts.has_role(node, Role.DEVICE)) and not replaced and not plan.is_removed(node):
            found.append(node)
    return found


def _attribute(choice: DeviceChoice) -> str | None:
    """The attribute which the device is: `args.device = ...`, or `device = ...` in the body of a class of settings."""
    if isinstance(choice.target, ast.Attribute):
        return choice.target.attr
    return choice.target.id if isinstance(choice.scope.node, ast.ClassDef) and isinstance(choice.target, ast.Name) else None


def _may_be_read(context: Context, plan: Plan, choice: DeviceChoice) -> bool:
    """Whether something that is no tensor is asked for such an attribute, of which nothing is known: it may be what holds the device."""
    attribute = _attribute(choice)
    gathered = {name for gather in context.facts.gathers.values() for name in gather.names}
    return attribute is not None and any(
        node.attr == attribute and not (isinstance(node.value, ast.Name) and node.value.id in gathered) and isinstance(node.ctx, ast.Load) and not context.facts.of(node) and not context.locals(node.value) and not plan.is_removed(node)
        for _, node in context.facts.nodes(ast.Attribute)
        if isinstance(node, ast.Attribute)
    )


def _device_text(context: Context, plan: Plan, choice: DeviceChoice, name: str) -> str | None:
    """`device = accelerator.device`, where the variable is still read; single reads are edited in place instead."""
    uses = _uses(context, plan, choice)
    here = [n for n in uses if context.facts.scope(n) is choice.scope]
    kept = _may_be_read(context, plan, choice) or is_looked_up(context.facts, choice)
    if not uses and not kept:
        return None
    if not kept and len(uses) == 1 and len(here) == 1:
        plan.add(ReplaceExpression(source=context.source(here[0]), rule=ID, why=WHY, node=here[0], template=context.device_of(name, choice)))
        return None
    target = ast.get_source_segment(context.source(choice.target).text, choice.target) or ast.unparse(choice.target)
    return f"{_literally(target)} = {context.device_of(name, choice)}"


def _device_line(context: Context, plan: Plan, choice: DeviceChoice, keep: bool) -> Iterator[Edit]:
    source = context.source(choice.statement)
    text, imports = context.say_anywhere("@accelerator@", choice.statement, ID)
    read = bool(_uses(context, plan, choice))
    if imports and _asks_the_user(context, choice) and (read or is_looked_up(context.facts, choice)):
        return
    line = _device_text(context, plan, choice, text)  # replaces an only read, which no longer counts then
    if read or line is not None:
        yield from imports
    if line is None:
        yield DeleteStatement(source=source, rule=ID, why=WHY, node=choice.statement)
    else:
        yield ReplaceStatement(source=source, rule=ID, why=WHY, node=choice.statement, template=line)


def _asks_the_user(context: Context, choice: DeviceChoice) -> bool:
    """Whether a setting can keep the script on the CPU, and a GPU is the current one, which the accelerator has set."""
    return bool(wants_cpu(context.facts, choice)) and ":" not in ast.unparse(choice.value)


def _leftovers(context: Context, plan: Plan) -> Iterator[Edit]:
    """Variables that only told whether there are devices, and are no longer read."""
    for source, node in context.facts.nodes(ast.Assign):
        assert isinstance(node, ast.Assign)
        if len(node.targets) != 1 or not _only_asks(context, node.value) or plan.is_removed(node):
            continue
        target = node.targets[0]
        if isinstance(target, ast.Name | ast.Attribute) and not _is_read(context, plan, node, target):
            yield DeleteStatement(source=source, rule=ID, why="no longer read", node=node)


def _only_asks(context: Context, value: ast.expr) -> bool:
    """Whether `value` asks for devices and has no effect."""
    calls = [n for n in ast.walk(value) if isinstance(n, ast.Call)]
    return bool(calls) and all(context.facts.external.get(c) in catalog.AVAILABILITY for c in calls)


def _is_read(context: Context, plan: Plan, assign: ast.Assign, target: ast.expr) -> bool:
    text = ast.unparse(target)
    if any(text in {ast.unparse(n) for n in ast.walk(ast.parse(e, mode="eval")) if isinstance(n, ast.Name | ast.Attribute)}
           for e in [context.home.cpu, *context.settings.values()] if e):  # fmt: skip
        return True
    reads = 0
    for _, node in context.facts.nodes(ast.Name, ast.Attribute):
        same = node.id == text if isinstance(node, ast.Name) and isinstance(target, ast.Name) else (
            isinstance(node, ast.Attribute) and isinstance(target, ast.Attribute) and node.attr == target.attr
        )
        if same and isinstance(node.ctx, ast.Load) and not plan.is_removed(node):  # type: ignore[attr-defined]
            reads += 1
    return reads > 0
