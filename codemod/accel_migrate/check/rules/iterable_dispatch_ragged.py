"""Batches of a stream that are padded each to its own width, and dispatched: the first process cannot join them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.check.alarms import Alarm
from accel_migrate.check.program import Program
from accel_migrate.edits import Severity
from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.values import Function, Instance, Role
from accel_migrate.quoting import quote

ID = "iterable-dispatch-ragged"
TITLE = "Batches of an IterableDataset are padded one by one, and dispatched"
SEVERITY = Severity.WARNING
LIBRARIES = frozenset({"accelerate"})

_PADDING = {"pad_sequence", "pad", "collate_fn", "DataCollatorWithPadding", "DataCollatorForSeq2Seq"}
_STREAMS = {"torch.utils.data.IterableDataset", "torch.utils.data.dataset.IterableDataset"}
_FIXED = {"max_length", "pad_to_multiple_of"}


def check(program: Program) -> Iterator[Alarm]:
    dispatch = program.setting("dispatch_batches")
    if dispatch is not None and ast.unparse(dispatch) == "False":
        return
    for site in program.prepared_sites(Role.LOADER):
        if (
            not isinstance(site, ast.Call)
            or not site.args
            or not any(_is_stream(program, v) for v in program.facts.of(site.args[0]))
        ):
            continue
        collate = next((k.value for k in site.keywords if k.arg == "collate_fn"), None)
        if collate is not None and _pads_each(program, collate):
            yield Alarm(
                collate,
                f"the first process reads the stream and joins the batches of all processes before it cuts them, but `{quote(collate)}` gives each batch another width: it stops with a size mismatch on several processes",
                "pad to one length in collate_fn, or DataLoaderConfiguration(dispatch_batches=False) with sharding in the data set by rank and worker",
            )


def _is_stream(program: Program, value: object) -> bool:
    return isinstance(value, Instance) and any(base in _STREAMS for base in ancestry(program.facts, value.cls.node))


def _pads_each(program: Program, collate: ast.expr) -> bool:
    bodies = [collate, *(v.node for v in program.facts.of(collate) if isinstance(v, Function))]
    calls = [n for body in bodies for n in ast.walk(body) if isinstance(n, ast.Call)]
    padding = [c for c in calls if program.method(c) in _PADDING]
    return bool(padding) and not any(_is_fixed(c) for c in padding)


def _is_fixed(call: ast.Call) -> bool:
    return any(
        k.arg in _FIXED or (k.arg == "padding" and ast.unparse(k.value) == "'max_length'") for k in call.keywords
    )
