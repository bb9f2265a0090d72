"""What Hugging Face Accelerate computes otherwise on several processes, and no rewrite of one line mends."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.values import Instance, Role, Spread, spread_of
from accel_migrate.rules.backward import weight_template

ID = "accelerate-limits"
TITLE = "Name what Accelerate computes otherwise on several processes"
WHY = "statistics and denominators are those of each process"

BATCH_NORMS = tuple(f"torch.nn.{name}" for name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d"))
SYNCED = ("torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.nn.SyncBatchNorm")


def apply(context: Context) -> Iterator[Edit | Finding]:
    if context.dialect.exact or context.distributed:
        return
    yield from _batch_norms(context)
    yield from _weighted_means(context)
    yield from _closures(context)
    yield from _batch_samplers(context)


def _batch_norms(context: Context) -> Iterator[Finding]:
    """One finding per file, at its first layer."""
    if next(context.calls_of(*SYNCED), None) is not None:
        return
    seen: set[object] = set()
    for call in sorted(context.calls_of(*BATCH_NORMS), key=lambda c: (c.lineno, c.col_offset)):
        source = context.source(call)
        if source not in seen:
            seen.add(source)
            yield _finding(
                context, call, "BatchNorm takes its statistics from each process's own rows of the batch: another training than on one process",
                "on GPUs: model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model) before accelerator.prepare; torch has none for the CPU",
            )  # fmt: skip


def _weighted_means(context: Context) -> Iterator[Finding]:
    """Losses with another denominator than the number of rows, where it is known; where not, other rules say so."""
    figures = [(b.call, b.values) for b in context.facts.backwards.values() if b.with_loader]
    figures += [(c.value, c.values) for c in context.facts.conversions.values() if not context.in_model(c.value)]
    for node, values in figures:
        if spread_of(values) is Spread.RATIO and weight_template(context, values, node) is not None:
            yield _finding(
                context, node, "this loss is a mean over something else than rows (ignore_index, class weights); the processes' means are averaged as equals",
                context.dialect.weighted_advice, rule="weighted-mean",
            )  # fmt: skip


def _closures(context: Context) -> Iterator[Finding]:
    for call, (base, name) in context.facts.methods.items():
        closure = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "closure")]
        if name != "step" or not closure or not any(context.facts.role(v) is Role.OPTIMIZER for v in base):
            continue
        yield _finding(
            context, call, "the closure returns this process's loss: processes may step differently, or evaluate it a different number of times and hang",
            'return the global loss from the closure: accelerator.reduce(loss.detach(), reduction="mean")', severity=Severity.ERROR,
        )  # fmt: skip


def _batch_samplers(context: Context) -> Iterator[Finding]:
    """Accelerate cuts batches by the `batch_size` of their sampler."""
    for call in context.calls_of(*catalog.LOADERS):
        given = next((k.value for k in call.keywords if k.arg == "batch_sampler"), None)
        classes = [v.cls.node for v in context.facts.of(given) if isinstance(v, Instance)] if given is not None else []
        if any("batch_size" not in {n.attr for n in ast.walk(cls) if isinstance(n, ast.Attribute)} for cls in classes):
            yield _finding(
                context, call, "Accelerate cannot cut the batches of a batch sampler without the attribute batch_size",
                "give it batch_size, and batches of that size only; --target accel_runtime cuts batches of any size",
            )  # fmt: skip


def _finding(context: Context, node: ast.AST, message: str, advice: str, rule: str = ID, severity: Severity = Severity.WARNING) -> Finding:
    return Finding(source=context.source(node), node=node, rule=rule, message=message, advice=advice, severity=severity)
