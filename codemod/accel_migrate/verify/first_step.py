"""Why two trainings differ, from the gradients, backward passes and batches of the first step at which they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from accel_migrate.verify.records import Record, Step
from accel_migrate.verify.report import Comparison


def reasons_of_gradients(original: Record, records: list[Record], result: Comparison) -> Iterator[str]:
    """From the first step whose loss or gradient differs, where nothing else explains it."""
    step = min((d.step for d in result.differences if d.kind in ("loss", "gradient")), default=0)
    if not step or any(d.kind in ("replicas", "samples", "steps") or (d.kind == "learning-rate" and d.step <= step) for d in result.differences):
        return
    one, other = original.steps[step - 1], records[0].steps[step - 1]
    parts = unequal_parts(original, records, step)
    ratio = _common_ratio(one, other) or (_rough_ratio(one, other, len(records)) if parts else 0.0)
    if step > 1 and (before := _zeroed(original, step)) > _zeroed(records[0], step) == 0:
        yield f"gradients are not set to zero before step {step}: the original calls zero_grad {_times(before)} since the step before"
    elif ratio and abs(ratio - 1) > 0.01:
        yield _of_ratio(ratio, step, len(records))
    elif _windows(one, records, step):
        yield f"step {step} adds up {other.backwards} backward passes where the original adds up {one.backwards}: accumulation windows have another length"
    elif parts and step > 1 and not any(unequal_parts(original, records, earlier) for earlier in range(1, step)):
        yield parts
    elif any(d.kind == "loss" and d.step == step for d in result.differences):
        yield f"the forward pass of step {step} computes another loss; all before it is the same" if step > 1 else "the first forward pass already computes another loss: initial weights, inputs or the loss differ"
    else:
        yield f"the loss of step {step} is the same and its gradient is not: {_most_different(original, one, other)}"


def unequal_parts(original: Record, records: Sequence[Record], step: int) -> str:
    """Where each step takes one batch; empty if the parts of this one are equal, or not known."""
    sizes = [batch_sizes(record) for record in records]
    parts = [size[step - 1] for size in sizes if len(size) >= len(original.steps) == len(batch_sizes(original))]
    if len(parts) < 2 or len(set(parts)) == 1:
        return ""
    return f"the processes hold unequal parts of the batch of step {step} ({' and '.join(map(str, parts))} samples) and their means count the same: accelerator.backward weighs them"


def _zeroed(record: Record, step: int) -> int:
    return record.steps[step - 1].zeroed


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _windows(one: Step, records: Sequence[Record], step: int) -> bool:
    return any(record.steps[step - 1].backwards != one.backwards for record in records)


def _of_ratio(ratio: float, step: int, processes: int) -> str:
    nice = Fraction(ratio).limit_denominator(16)
    text = str(nice) if abs(float(nice) - ratio) < 0.002 * ratio else f"{ratio:.4g}"
    start = f"at step {step} every gradient is {text} times the original's"
    if abs(ratio * processes - 1) < 0.01:
        return f"{start}: divided by the number of processes once too often, or a summed loss is averaged over the processes (backward(loss, reduction='sum'))"
    if abs(ratio / processes - 1) < 0.01:
        return f"{start}: multiplied by the number of processes, or summed over them where the mean is meant"
    return f"{start}: a loss is scaled differently (accumulation divides it twice or not at all, or another denominator)"


def _common_ratio(one: Step, other: Step) -> float:
    """By which all gradients differ; 0 where they do not differ alike."""
    least = 1e-3 * max(one.gradients, default=0.0)
    ratios = [b / a for a, b in zip(one.gradients, other.gradients, strict=False) if a > max(least, 0.0) and b > 0]
    return ratios[0] if ratios and max(ratios) - min(ratios) < 5e-3 * max(ratios) else 0.0


def _rough_ratio(one: Step, other: Step, processes: int) -> float:
    """The number of processes or its inverse, where unequal parts of a batch keep the gradients from differing quite alike."""
    least = 1e-3 * max(one.gradients, default=0.0)
    ratios = sorted(b / a for a, b in zip(one.gradients, other.gradients, strict=False) if a > max(least, 0.0) and b > 0)
    middle = ratios[len(ratios) // 2] if ratios else 0.0
    return next((near for near in (float(processes), 1 / processes) if processes > 1 and abs(middle / near - 1) < 0.1), 0.0)


def _most_different(original: Record, one: Step, other: Step) -> str:
    pairs = list(zip(one.gradients, other.gradients, strict=False))
    place = max(range(len(pairs)), key=lambda i: abs(pairs[i][0] - pairs[i][1]), default=0)
    if not pairs:
        return "no parameter has one"
    return f"the gradient of {original.name(one, place)} has norm {pairs[place][1]:.6g} instead of {pairs[place][0]:.6g}"


def batch_sizes(record: Record) -> list[int]:
    """Sizes of the batches that were trained on, in order."""
    return [len(batch) for p in record.passes if p.trains for batch in p.batches]
