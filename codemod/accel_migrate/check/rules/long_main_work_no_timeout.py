"""The others wait while the first process prepares data; the default time limit ends the run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.quoting import quote

ID = "long-main-work-no-timeout"
TITLE = "Long work of the first process, with the default time limit for the others"
SEVERITY = Severity.INFO
OPT_IN = True

_LONG = {"map", "snapshot_download", "load_dataset", "download_and_prepare", "extractall", "urlretrieve"}
_FIRST = {"main_process_first", "local_main_process_first"}


def check(program: Program) -> Iterator[Alarm]:
    if program.setting("timeout") is not None:
        return
    for _, node in program.facts.nodes(ast.With):
        assert isinstance(node, ast.With)
        first = [
            i.context_expr
            for i in node.items
            if isinstance(i.context_expr, ast.Call) and program.accelerator_calls.get(i.context_expr) in _FIRST
        ]
        work = next(
            (
                n
                for s in node.body
                for n in ast.walk(s)
                if isinstance(n, ast.Call)
                and program.method(n) in _LONG
                and isinstance(n.func, ast.Attribute | ast.Name)
            ),
            None,
        )
        if first and work is not None:
            yield Alarm(
                first[0],
                f"the other processes wait for `{quote(work, 40)}`: after 10 minutes on GPUs (30 elsewhere) they give up, and the run ends",
                "Accelerator(kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=2))]), or prepare the data in a run of its own",
            )
            return
