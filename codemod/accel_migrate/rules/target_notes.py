"""Where and why numbers on several processes differ from those on one under Hugging Face Accelerate: notes of the report.

The id sorts after `accelerator`, whose `finish` brings the last edits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from accel_migrate.context import Context
from accel_migrate.edits import Edit, Finding, Severity
from accel_migrate.facts import catalog
from accel_migrate.facts.classes import ancestry
from accel_migrate.facts.values import Instance, Literal, Role
from accel_migrate.order import Before
from accel_migrate.places import node_of
from accel_migrate.plan import Plan
from accel_migrate.rules.prepare import prepared_sites

ID = "target-notes"
TITLE = "Say where Accelerate's numbers differ on several processes"
WHY = "its own order and padding"
FINDINGS = {"early-state": "Find a PartialState made before the Accelerator, which decides without its settings"}

ITERABLE = {"torch.utils.data.IterableDataset", "torch.utils.data.dataset.IterableDataset"}


def apply(context: Context) -> Iterator[Edit | Finding]:
    """Notes are written once the precision is known."""
    return iter(())


def finish(context: Context, plan: Plan) -> Iterator[Edit | Finding]:
    if not context.dialect.exact and not context.home.existing:
        context.notes += _notes(context)
        yield from _early_state(context, plan)


def _early_state(context: Context, plan: Plan) -> Iterator[Finding]:
    """`PartialState()` before the accelerator takes no notice of ACCELERATE_USE_CPU; one finding per file."""
    order = Before.statement(context.facts, context.home.anchor)
    seen: set[object] = set()
    for edit in plan.edits:
        text = f"{getattr(edit, 'template', '')}{getattr(edit, 'header', '')}{getattr(edit, 'value', '')}"
        node = node_of(edit)
        if "PartialState()" in text and node is not None and edit.source not in seen and order.is_before(node):
            seen.add(edit.source)
            yield Finding(
                source=edit.source, node=node, rule="early-state", severity=Severity.WARNING,
                message="PartialState() runs before the accelerator is made: on a host without GPU the processes then do not find each other, and Accelerator(cpu=True) comes too late",
                advice="make the accelerator above this line; where there are GPUs it is right as it is",
            )  # fmt: skip


def _notes(context: Context) -> Iterator[str]:
    if context.left_out:
        yield "loaders and schedulers stay out of accelerator.prepare: Accelerate would cut what the sampler has shared out, and tick schedulers once per process"
    sites = prepared_sites(context)
    loaders = [s for s, role in sites if role is Role.LOADER and isinstance(s, ast.Call)]
    if loaders:
        yield from _loaders(context, loaders)
    ready_made = [s for s, role in sites if role is Role.MODEL and isinstance(s, ast.Call) and _is_ready_made(context, s)]
    ready_made += [c for c, name in context.facts.external.items() if name.startswith(catalog.MODEL_FACTORY_PREFIXES)]
    if ready_made and not context.distributed:
        yield f"{_where(context, ready_made)}: if the model has BatchNorm layers, they take their statistics from each process's own rows"
    if "mixed_precision" in context.settings:
        yield "Accelerate runs every forward pass of a prepared model in mixed precision, those outside of autocast (evaluation) too; on the CPU it scales no fp16 gradients"
    yield "on a host without GPU, accelerate launch starts one process; two: ACCELERATE_USE_CPU=true torchrun --nproc_per_node 2 SCRIPT ARGS"


def _is_ready_made(context: Context, site: ast.Call) -> bool:
    """Whether a library other than torch makes the model: its layers are not in sight."""
    known = any(isinstance(v, Instance) for v in context.facts.of(site))
    return not known and not context.facts.external.get(site, "").startswith("torch.")


def _loaders(context: Context, loaders: list[ast.Call]) -> Iterator[str]:
    shuffled = [c for c in loaders if _given(c, "shuffle", "sampler")]
    if shuffled:
        yield f"{_where(context, shuffled)}: on several processes Accelerate draws the order of samples from a generator of its own, so losses agree with one process in distribution only"
    padded = [c for c in loaders if not _given(c, "drop_last")]
    if padded:
        yield f"{_where(context, padded)}: Accelerate fills up a last, smaller batch with the first samples: training and reduced figures count those twice (gather_for_metrics drops them)"
    sizes = sorted({v.value for c in loaders for v in _size(context, c) if isinstance(v, Literal) and isinstance(v.value, int)})
    known = f" (here {', '.join(map(str, sizes))})" if sizes else ""
    yield f"{_where(context, loaders)}: with split_batches each batch size must be a multiple of the number of processes{known}"
    zipped = [c for c in context.calls_of("zip") if sum(context.facts.has_role(a, Role.LOADER) for a in c.args) > 1]
    if zipped:
        yield f"{_where(context, zipped)}: Accelerate's loaders start only when they are read, so zipped loaders draw from the random stream in another order, on one process too"
    workers = [c for c in loaders if _given(c, "num_workers")]
    if workers:
        yield f"{_where(context, workers)}: random augmentation draws the same numbers in the workers of all processes"
    if any(ITERABLE & set(ancestry(context.facts, cls)) for cls in context.facts.bases):
        yield "an IterableDataset is read by the main process and sent to the others: its batches must hold nothing but tensors (and containers of them)"


def _given(call: ast.Call, *names: str) -> bool:
    """Whether one of the arguments is passed and is not False, None or 0."""
    return any(k.arg in names and not (isinstance(k.value, ast.Constant) and not k.value.value) for k in call.keywords)


def _size(context: Context, call: ast.Call) -> Iterable[object]:
    node = next((k.value for k in call.keywords if k.arg == "batch_size"), call.args[1] if len(call.args) > 1 else None)
    return context.facts.of(node) if node is not None else ()


def _where(context: Context, calls: list[ast.Call]) -> str:
    """`train.py:9, 14` for calls of one file, several such for several."""
    lines: dict[str, set[int]] = {}
    for call in calls:
        path, _, line = context.source(call).where(call.lineno).rpartition(":")
        lines.setdefault(path, set()).add(int(line))
    return "; ".join(f"{path}:{', '.join(map(str, sorted(numbers)))}" for path, numbers in lines.items())
