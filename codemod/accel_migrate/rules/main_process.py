"""What the run tells the world, it tells once: prints, progress bars, logs, writers and files on the main process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.access import Unreachable
from accel_migrate.context import Context
from accel_migrate.dialects import ACCELERATOR
from accel_migrate.edits import AddArgument, AddImport, Edit, Finding, Inner, InsertAfter, InsertBefore, WrapStatements
from accel_migrate.facts import catalog, trackers
from accel_migrate.facts.values import Made, Ref, Role
from accel_migrate.rules._caches import caches, fetches, go_first
from accel_migrate.rules._checked_first import wait_between
from accel_migrate.rules._taken_ahead import parted, taken_ahead
from accel_migrate.side_effects import (
    is_guarded,
    opens_for_writing,
    runs_of,
    speaking_functions,
    writing_statements,
)
from accel_migrate.writers import answers, handed_back, is_asked, keeps_settings, makers

ID = "main-process"
TITLE = "Print, log and write on the main process only"
WHY = "otherwise every process says it"
LATE = True

MAIN = f"if {ACCELERATOR}.is_main_process:"
COUNTED = {"n", "last_print_n", "last_print_t", "start_t", "format_dict"}
"""What a progress bar that is disabled does not keep up."""


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    for call, name in context.facts.external.items():
        if name == "print":
            yield from _say(context, call)
        elif name in catalog.PROGRESS_BARS:
            yield from _progress(context, call)
        elif name == "logging.basicConfig":
            yield from _log_level(context, call)
    for call, (base, method) in context.facts.methods.items():
        if method == "setLevel" and any(context.facts.role(v) is Role.LOGGER for v in base) and len(call.args) == 1:
            yield from _logger_level(context, call)
    states: set[ast.AST] = {context.facts.statement(copy) for copy in context.states.copies}
    states |= {s for choice in caches(context) if fetches(context, choice) for s in ast.walk(choice)}
    statements = [s for s in writing_statements(context.facts) if s not in states]
    speaking = speaking_functions(context.facts, statements)
    for function in speaking:
        yield from _end_early(context, function)
    statements = [s for s in statements if context.facts.function(s) not in speaking]
    yield from _writers(context, statements)
    yield from _guards(context, statements)
    yield from _open_files(context, statements)
    yield from _log_files(context)
    yield from go_first(context, ID)
    yield from wait_between(context, ID)


def _say(context: Context, call: ast.Call) -> Iterator[Edit]:
    if is_guarded(context.facts, call) or context.facts.is_dead(call):
        return
    if not (isinstance(call.func, ast.Name) and call.func.id == "print"):
        yield from _say_by_other_name(context, call)
        return
    text, imports = context.say_anywhere(f"{ACCELERATOR}.print", call, ID)
    yield context.replace(ID, call.func, text, WHY)
    yield from imports


def _say_by_other_name(context: Context, call: ast.Call) -> Iterator[Edit]:
    """`self.log = print`, `def f(say=print)`: what is called may be something else too, so the call stays, under a guard."""
    statement = context.facts.statement(call)
    if isinstance(statement, ast.Expr) and statement.value is call:
        text, imports = context.say_anywhere(MAIN, statement, ID)
        yield WrapStatements(source=context.source(call), rule=ID, why=WHY, nodes=(statement,), header=text)
        yield from imports


def _is_read(context: Context, call: ast.Call) -> bool:
    """Whether the script reads what the progress bar made by `call` counts: one that is disabled counts nothing."""
    reads = (node for _, node in context.facts.nodes(ast.Attribute) if node.attr in COUNTED)  # type: ignore[attr-defined]
    bars = (v for node in reads for v in context.facts.values.get(node.value, ()))  # type: ignore[attr-defined]
    return any(isinstance(v, Made) and v.site is call for v in bars)


def _progress(context: Context, call: ast.Call) -> Iterator[Edit]:
    if _is_read(context, call):
        return
    asked = next((k.value for k in call.keywords if k.arg == "disable"), None)
    constant = asked is None or isinstance(asked, ast.Constant)
    if (context.distributed and not constant) or (isinstance(asked, ast.Constant) and asked.value) or (asked is not None and "main_process" in ast.unparse(asked)):
        return
    text, imports = context.say_anywhere(f"not {ACCELERATOR}.is_local_main_process", call, ID)
    if asked is None:
        yield AddArgument(source=context.source(call), rule=ID, why=WHY, node=call, value=text, keyword="disable")
    elif not constant:
        yield context.replace(ID, asked, f"{{x}} or {text}", WHY, x=asked)
    else:  # None asks the terminal
        yield context.replace(ID, asked, f"{text} or None" if asked.value is None else text, WHY)  # type: ignore[attr-defined]
    yield from imports


def _log_level(context: Context, call: ast.Call) -> Iterator[Edit]:
    level = next((k.value for k in call.keywords if k.arg == "level"), None)
    module = ast.unparse(call.func).rpartition(".")[0]
    quiet = f"{module}.WARNING" if module else '"WARNING"'
    try:
        main = context.say(f"{ACCELERATOR}.is_main_process", call)
    except Unreachable:
        yield from _quiet_others(context)
        return
    if level is not None:
        yield context.replace(ID, level, f"{{x}} if {main} else {quiet}", WHY, x=Inner(level))


def _logger_level(context: Context, call: ast.Call) -> Iterator[Edit]:
    """`logger.setLevel(INFO)`: the other processes' loggers only warn."""
    if is_guarded(context.facts, call):
        return
    level = call.args[0]
    of_logging = any(isinstance(v, Ref) and v.name.startswith("logging.") for v in context.facts.of(level))
    quiet = f"{ast.unparse(level).rpartition('.')[0]}.WARNING" if of_logging and isinstance(level, ast.Attribute) else '"WARNING"'
    if isinstance(context.facts.function(call), ast.Module) and not context.accelerator.is_at_hand(call):
        yield from _quiet_others(context)
        return
    main, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", call, ID)
    yield _replace_inner(context, level, f"{{x}} if {main} else {quiet}")
    yield from imports


def _quiet_others(context: Context) -> Iterator[Edit]:
    """Logging that is set up while modules are imported: once there are processes, the others only warn."""
    home, text = context.home, context.say(ACCELERATOR, context.home.anchor)
    template = f"if not {text}.is_main_process:\n    logging.disable(logging.INFO)"
    yield InsertAfter(source=home.source, rule=ID, why=WHY, node=home.anchor, template=template)
    yield AddImport(source=home.source, rule=ID, why=WHY, module="logging")


# -- guards -----------------------------------------------------------------------------------------
def _writers(context: Context, statements: list[ast.stmt]) -> Iterator[Edit]:
    """A writer exists on the main process only, and so does what it answers."""
    facts = context.facts
    for call in (*makers(facts), *answers(facts)):
        if is_guarded(facts, call) or any(facts.inside(call, s) for s in statements) or is_asked(facts, call, statements):
            continue
        main, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", call, ID)
        yield from imports
        start = facts.external.get(call, "")
        if start in trackers.SETTINGS and keeps_settings(facts, start):
            yield from _switched_off(context, call, main)
        elif isinstance(facts.parents[call], ast.withitem):
            yield _replace_inner(context, call, f"{{x}} if {main} else contextlib.nullcontext()")
            yield AddImport(source=context.source(call), rule=ID, why=WHY, module="contextlib")
        elif (back := handed_back(call)) is not None:
            yield context.replace(ID, call, f"{{x}} if {main} else {{y}}", WHY, x=Inner(call), y=back)
        else:
            yield _replace_inner(context, call, f"{{x}} if {main} else None")


def _switched_off(context: Context, call: ast.Call, main: str) -> Iterator[Edit]:
    """The record keeps the settings that every process reads; only the main one's is written."""
    mode = next((k.value for k in call.keywords if k.arg == "mode"), None)
    if mode is not None:
        yield _replace_inner(context, mode, f'{{x}} if {main} else "disabled"')
    else:
        yield AddArgument(source=context.source(call), rule=ID, why=WHY, node=call, value=f'None if {main} else "disabled"', keyword="mode")


def _end_early(context: Context, function: ast.FunctionDef) -> Iterator[Edit]:
    text, imports = context.say_anywhere(f"if not {ACCELERATOR}.is_main_process:\n    return", function.body[0], ID)
    first = function.body[0]
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    yield InsertBefore(source=context.source(function), rule=ID, why=WHY, node=function.body[1] if docstring else first, template=text)
    yield from imports


def _guards(context: Context, statements: list[ast.stmt]) -> Iterator[Edit]:
    """Runs of neighbouring statements that write go under one guard."""
    for run in (part for whole in runs_of(context.facts, statements) for part in parted(whole)):
        condition = run[0]
        yield from taken_ahead(context, condition, ID, WHY)
        if len(run) == 1 and isinstance(condition, ast.If) and not condition.orelse:
            text, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", condition, ID)
            yield _replace_inner(context, condition.test, f"{text} and {{x}}")
        elif (choice := _plain_choice(context, run)) is not None:
            text, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", condition, ID)
            yield _replace_inner(context, choice.test, f"{{x}} and {text}")
        else:
            text, imports = context.say_anywhere(MAIN, condition, ID)
            yield WrapStatements(source=context.source(condition), rule=ID, why=WHY, nodes=tuple(run), header=text)
        yield from imports


def _plain_choice(context: Context, run: list[ast.stmt]) -> ast.If | None:
    """`if is_best:` around `run` and nothing else."""
    parent = context.facts.parents[run[0]]
    whole = isinstance(parent, ast.If) and parent.body == run and not parent.orelse
    return parent if whole and isinstance(parent.test, ast.Name) and not context.locals(parent.test) else None  # type: ignore[union-attr, return-value]


def _open_files(context: Context, statements: list[ast.stmt]) -> Iterator[Edit]:
    """A file that stays open while models run: the other processes write into the void."""
    for call in context.calls_of("open", "io.open"):
        if not opens_for_writing(context.facts, call) or is_guarded(context.facts, call):
            continue
        if any(context.facts.inside(call, s) for s in statements) or not call.args:
            continue
        main, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", call, ID)
        yield context.replace(ID, call.args[0], f"{{x}} if {main} else os.devnull", WHY, x=Inner(call.args[0]))
        yield AddImport(source=context.source(call), rule=ID, why=WHY, module="os")
        yield from imports


def _log_files(context: Context) -> Iterator[Edit]:
    """A log that is begun anew, which the other processes must not truncate, or whose folder one process makes, perhaps later than they open it."""
    makes_folders = any(True for _ in context.calls_of("os.makedirs", "os.mkdir")) or any(name == "mkdir" for _, name in context.facts.methods.values())
    for call in context.calls_of("logging.FileHandler", "logging.basicConfig"):
        modes = [*(k.value for k in call.keywords if k.arg in {"mode", "filemode"}), *call.args[1:2]]
        files = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "filename")]
        anew = any(isinstance(m, ast.Constant) and "w" in str(m.value) for m in modes)
        if not files or is_guarded(context.facts, call) or not (anew or makes_folders):
            continue
        main, imports = context.say_anywhere(f"{ACCELERATOR}.is_main_process", call, ID)
        yield _replace_inner(context, files[0], f"{{x}} if {main} else os.devnull")
        yield AddImport(source=context.source(call), rule=ID, why=WHY, module="os")
        yield from imports


def _replace_inner(context: Context, node: ast.expr, template: str) -> Edit:
    """`node` becomes `template`, of which it is a part itself."""
    return context.replace(ID, node, template, WHY, x=Inner(node))
