"""A tracker's run, or a file to write to, that every process opens."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm, Fix
from accel_migrate.check.program import Program
from accel_migrate.check.rules.raw_backward import _name
from accel_migrate.edits import ReplaceExpression, Severity
from accel_migrate.facts.catalog import WRITERS
from accel_migrate.quoting import quote
from accel_migrate.side_effects import opens_for_writing

ID = "main-process-side-effects"
TITLE = "Every process opens a run, a writer, a file to write to, or prints each line"
SEVERITY = Severity.WARNING


def check(program: Program) -> Iterator[Alarm]:
    if not program.makers:
        return
    printed: set[ast.AST] = set()
    for call, name in program.facts.external.items():
        if program.ranks.is_guarded(call):
            continue
        if name in WRITERS and not _is_switched_off(call):
            yield Alarm(
                call,
                f"`{quote(call)}` opens one run for each process: N runs, or event files that are mixed up",
                'under `if accelerator.is_main_process:`; or Accelerator(log_with="wandb"), accelerator.init_trackers(...) and accelerator.log(...)',
            )
        elif (
            name == "print"
            and (loop := program.training_loop(call)) is not None
            and loop not in printed
            and not _tells_rank(program, call)
        ):
            printed.add(loop)
            own = _name(program, call)
            edit = ReplaceExpression(source=program.source(call), rule=ID, node=call.func, template=f"{own}.print")
            yield Alarm(
                call,
                "every process prints the line",
                "accelerator.print(...)",
                Fix((edit,)) if own is not None else None,
                Severity.INFO,
            )
        elif name in {"open", "io.open"} and opens_for_writing(program.facts, call) and call.args and not _is_its_own(program, call.args[0]):
            yield Alarm(
                call,
                f"`{quote(call)}` is written by every process at once: each line N times, or lost",
                "under `if accelerator.is_main_process:`, or with `path if accelerator.is_main_process else os.devnull`",
            )


def _is_its_own(program: Program, path: ast.expr) -> bool:
    """Whether the file has another name on each process, or is none."""
    made_of = " ".join(part.id if isinstance(part, ast.Name) else part.attr for part in program.flow.origins(path) if isinstance(part, ast.Name | ast.Attribute))
    return any(word in made_of.lower() for word in ("process", "rank", "pid", "temp", "tmp", "devnull", "uuid", "hostname", "worker"))


def _is_switched_off(call: ast.Call) -> bool:
    """Whether an argument such as `mode="disabled"` hangs on the process."""
    return any("is_main_process" in ast.unparse(keyword.value) for keyword in call.keywords)


def _tells_rank(program: Program, call: ast.Call) -> bool:
    """Whether the line says which process prints it."""
    return any(isinstance(n, ast.Attribute) and "process_index" in n.attr for n in program.flow.origins(*call.args))
