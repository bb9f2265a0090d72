"""A file that every process writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import Severity, WrapStatements
from accel_migrate.quoting import quote

ID = "unguarded-save"
TITLE = "Every process writes, makes or removes the same file"
SEVERITY = Severity.ERROR

_WRITING = {
    "torch.save",
    "numpy.save",
    "numpy.savez",
    "json.dump",
    "pickle.dump",
    "shutil.rmtree",
    "os.remove",
    "os.rename",
    "os.replace",
    "os.mkdir",
    "shutil.move",
    "safetensors.torch.save_file",
}
_SECOND = {"torch.save", "json.dump", "pickle.dump", "safetensors.torch.save_file"}
"""Those that are given the path, or file, after what is written."""
_OF_MODELS = {"save_pretrained", "push_to_hub"}
_RANKED = {
    "process_index",
    "local_process_index",
    "rank",
    "local_rank",
    "get_rank",
    "getpid",
    "mkdtemp",
    "TemporaryDirectory",
    "mkstemp",
    "NamedTemporaryFile",
    "BytesIO",
    "gettempdir",
    "uuid1",
    "uuid4",
}
"""Names in a path that is another one on each process, or in something that is no file of the run's."""
_CHECKS = {"is_main_process", "save_function"}


def check(program: Program) -> Iterator[Alarm]:
    if not program.preparations:
        return
    for call in _writing(program):
        if (
            program.ranks.is_guarded(call)
            or _is_ranked(program, call)
            or _writes_once(call)
            or not _is_run(program, call)
        ):
            continue
        statement = program.facts.statement(call)
        own = _name(program, call)
        wrap = WrapStatements(
            source=program.source(call), rule=ID, nodes=(statement,), header=f"if {own}.is_main_process:"
        )
        yield Alarm(
            call,
            f"`{quote(call)}` runs on every process: they write over each other, and a reader finds half a file",
            "put it under `if accelerator.is_main_process:`"
            + (", or use `accelerator.save(...)`" if program.facts.external.get(call) == "torch.save" else ""),
            Fix((wrap,), safe=False)
            if own is not None and isinstance(statement, ast.Expr) and statement.value is call
            else None,
        )


def _writing(program: Program) -> Iterator[ast.Call]:
    yield from (call for call, name in program.facts.external.items() if name in _WRITING)
    for call, (_, method) in program.facts.methods.items():
        if (
            method in _OF_MODELS
            and program.setting("parallelism_config") is None
            and call not in program.facts.external
            and isinstance(call.func, ast.Attribute)
            and (program.is_model(call.func.value) or _is_unwrapped(program, call.func.value))
        ):
            yield call


def _is_unwrapped(program: Program, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and program.method(node) == "unwrap_model"


def _writes_once(call: ast.Call) -> bool:
    """Whether the call is told which process writes, or may be: what `**kwargs` holds is not to be seen."""
    return any(k.arg is None or k.arg in _CHECKS for k in call.keywords)


def _is_ranked(program: Program, call: ast.Call) -> bool:
    """Whether the path is another one on each process: made of its rank, of something drawn, or of its own samples."""
    if any(program.facts.is_local(n) for n in _path(program, call)):
        return True
    nodes = program.flow.origins(*call.args, *(k.value for k in call.keywords))
    return any(
        (n.attr if isinstance(n, ast.Attribute) else n.id if isinstance(n, ast.Name) else "") in _RANKED for n in nodes
    )


def _path(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """What the path that `call` writes to is made of."""
    later = program.facts.external.get(call, "") in _SECOND
    for argument in call.args[1:2] if later else call.args[:1]:
        yield from (n for n in ast.walk(argument) if isinstance(n, ast.expr))


def _is_run(program: Program, call: ast.Call) -> bool:
    """Whether the program comes to `call` after its processes have started."""
    function = program.facts.function(call)
    if isinstance(function, ast.Module):
        return True
    return function in program.facts.visited
