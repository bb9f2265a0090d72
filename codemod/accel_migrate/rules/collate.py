"""A `collate_fn` that looks at the whole batch collates whole batches, of which each process takes its rows.

Prepared loaders collate each process's slice. Where the result depends on the rest of the batch (padding to the longest
sample, mixup) the slices would differ from the rows of the original batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import AddImport, Edit, Finding, Severity
from accel_migrate.facts.classes import find_method
from accel_migrate.facts.numbered import numbers_samples
from accel_migrate.facts.ragged import makes_rows
from accel_migrate.facts.values import Function, Instance, Made, Ref, Role, Value

ID = "collate"
TITLE = "Collate whole batches where samples depend on each other"
WHY = "padded to the longest sample of the whole batch, as before"
FINDINGS = {
    "batch-layout": "Find batches whose samples do not lie along dimension 0",
    "packed-length": "Find packed sequences that are unpacked to the longest sample of a process",
}

LOOKS_AT_ALL = {"max", "randperm", "permutation", "shuffle", "pad_sequence", "pad", "beta", "rand"}
JOINS_ROWS = {"cat", "concat", "concatenate", "hstack", "cumsum"}
"""Rows of all samples in one tensor, with offsets or graph indices: what each slice gives by itself is right."""
WITHOUT_COUPLING = {"torch.utils.data.default_collate", "torch.utils.data.dataloader.default_collate", "torch.utils.data._utils.collate.default_collate"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.distributed:
        return
    collators = {value: node for node in _collators(context) for value in context.facts.of(node)}
    ragged = [value for value in collators if (body := _body(context, value)) is not None and makes_rows(body)]
    coupled = [value for value in collators if _looks_at_all(context, value)]
    if ragged or coupled:
        yield from _collate_globally(context, collators[(ragged or coupled)[0]], "rows" if ragged else "global")
    for value, node in collators.items():
        yield from _unusual_layout(context, value, node)
    yield from _numbered(context)


def _numbered(context: Context) -> Iterator[Finding]:
    """Evaluations of batches whose rows bear the numbers of their samples."""
    where = numbers_samples(context.facts)
    for statement in context.facts.numbered if where is not None else ():
        loop = next((context.facts.loops.get(a) for a in context.facts.ancestors(statement) if a in context.facts.loops), None)  # type: ignore[call-overload]
        if loop is not None and not loop.trains:
            yield Finding(
                source=context.source(statement), node=statement, rule=ID, severity=Severity.INFO,
                message=f"rows of this batch bear the numbers of their samples ({context.source(where).where(where.lineno)}), which begin at 0 on each process: "
                "every process evaluates all batches, as before",
                advice="to share them out, compute the figures of each process's samples and gather those: accelerator.gather_for_metrics(figures, use_gather_object=True)",
            )  # fmt: skip


def _collators(context: Context) -> Iterator[ast.expr]:
    """The `collate_fn` of every loader that is made."""
    for call, _ in list(context.facts.external.items()):
        if any(isinstance(v, Made) and v.role is Role.LOADER and v.site is call for v in context.facts.of(call)):
            yield from (k.value for k in call.keywords if k.arg == "collate_fn")


def _collate_globally(context: Context, node: ast.expr, how: str) -> Iterator[Edit | Finding]:
    if not context.dialect.exact:
        ragged = how == "rows"
        yield Finding(
            source=context.source(node), node=node, rule=ID, severity=Severity.WARNING,
            message="this collate function makes a different number of rows of each sample: a mean over the rows of each process is not that over all of them" if ragged
            else "this collate function looks at the whole batch; how the batch is cut changes what it returns",
            advice="make the rows the samples of the data set" if ragged else "pad to a fixed length, or gather with pad_across_processes before gather_for_metrics",
        )  # fmt: skip
        return
    context.settings["dataloader_config"] = f'DataLoaderConfiguration(split_batches=True, collate="{how}")'
    yield AddImport(source=context.home.source, rule=ID, why=WHY, module=context.dialect.utils_module, names=("DataLoaderConfiguration",))
    yield from _unpacked_lengths(context)


def _unpacked_lengths(context: Context) -> Iterator[Finding]:
    """Batches are padded to their longest sample, and a process which has not got it unpacks less than that."""
    for call, name in list(context.facts.external.items()):
        if isinstance(call, ast.Call) and name == "torch.nn.utils.rnn.pad_packed_sequence" and not _says_length(call):
            yield Finding(
                source=context.source(call), node=call, rule="packed-length", severity=Severity.ERROR,
                message="this unpacks to the longest sample of each process, while the batch is padded to the longest of all",
                advice="pass total_length=x.size(1) (x: the padded batch; x.size(0) where time comes first)",
            )  # fmt: skip


def _says_length(call: ast.Call) -> bool:
    return len(call.args) > 3 or any(k.arg in ("total_length", None) for k in call.keywords)


def _body(context: Context, value: Value) -> ast.AST | None:
    if isinstance(value, Function):
        return value.node
    if isinstance(value, Instance):
        return find_method(context.facts, value.cls.node, "__call__")
    return None


def _looks_at_all(context: Context, value: Value) -> bool:
    if isinstance(value, Ref):
        return value.name not in WITHOUT_COUPLING
    if isinstance(value, Made):
        return value.role is Role.OBJECT and isinstance(value.site, ast.Call) and "ollat" in ast.unparse(value.site.func)
    body = _body(context, value)
    calls = [c for c in ast.walk(body) if isinstance(c, ast.Call)] if body is not None else []
    return any(map(_couples, calls)) and not any(_name(c) in JOINS_ROWS for c in calls)


def _couples(call: ast.Call) -> bool:
    return _name(call) in LOOKS_AT_ALL or any(k.arg == "padding" and not _is_constant(k.value, False, "max_length") for k in call.keywords)


def _is_constant(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def _unusual_layout(context: Context, value: Value, node: ast.expr) -> Iterator[Finding]:
    """Batches whose rows do not lie along dimension 0 cannot be cut there."""
    body = _body(context, value)
    calls = [c for c in ast.walk(body) if isinstance(c, ast.Call)] if body is not None else []
    padded = next((c for c in calls if _name(c) == "pad_sequence" and not any(k.arg == "batch_first" for k in c.keywords)), None)
    if padded is not None:
        yield Finding(
            source=context.source(padded), node=padded, rule="batch-layout", severity=Severity.ERROR,
            message="samples lie along dimension 1 of this batch; prepared loaders cut batches along dimension 0",
            advice="pad with batch_first=True and transpose where the model wants it (or build it with batch_first=True)",
        )  # fmt: skip
