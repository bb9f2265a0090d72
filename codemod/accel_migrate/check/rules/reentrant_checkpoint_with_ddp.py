"""Reentrant checkpointing runs parts of the model again in the backward pass, which a search for unused parameters does not see."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity

ID = "reentrant-checkpoint-with-ddp"
TITLE = "Reentrant activation checkpointing with find_unused_parameters=True"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})


def check(program: Program) -> Iterator[Alarm]:
    setting = program.setting("find_unused_parameters")
    if setting is None or not program.is_on("find_unused_parameters"):
        return
    own = [c for c, name in program.facts.external.items() if name == "torch.utils.checkpoint.checkpoint"]
    enabled = [c for _, c in program.facts.nodes(ast.Call) if isinstance(c, ast.Call) and program.method(c) == "gradient_checkpointing_enable"]
    reentrant = [c for c in (*own, *enabled) if not any(_says_otherwise(k) for k in c.keywords) and not _is_for_old_torch(program, c)]
    if reentrant:
        by_default = reentrant[0] in enabled and not any(k.arg for k in reentrant[0].keywords)
        when = " with transformers before version 5, whose default it is" if by_default else ""
        yield Alarm(
            setting,
            f"with the checkpointing of {program.where(reentrant[0])} a parameter is marked ready twice: RuntimeError in the first backward pass on several processes{when}",
            "pass use_reentrant=False to the checkpointing, or leave find_unused_parameters out",
            severity=Severity.INFO if by_default else None,
        )


def _says_otherwise(keyword: ast.keyword) -> bool:
    """`use_reentrant=False`, alone or in a dict of arguments; what `**kwargs` holds is not to be seen."""
    text = ast.unparse(keyword)
    return keyword.arg is None or ("use_reentrant" in text and "False" in text)


def _is_for_old_torch(program: Program, call: ast.Call) -> bool:
    """Whether a test of torch's version decides that `call` runs: the branch for new versions is the one with the argument."""
    return any(isinstance(a, ast.If) and "version" in ast.unparse(a.test) for a in program.facts.ancestors(call))
