"""Why two trainings differ, in words: from what has been recorded, and from what made the difference vanish."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from accel_migrate.verify import rounding
from accel_migrate.verify.calls import reasons_of_calls
from accel_migrate.verify.errors import reasons_of_errors
from accel_migrate.verify.evaluated import reason_in_samples
from accel_migrate.verify.first_step import batch_sizes, reasons_of_gradients, unequal_parts
from accel_migrate.verify.records import Record
from accel_migrate.verify.report import Comparison
from accel_migrate.verify.runs import Traced
from accel_migrate.verify.samples import read_alike, train_on_the_same
from accel_migrate.verify.stacks import odd_one
from accel_migrate.verify.suspects import EXPECTED, Cause, draw_numbers_of_their_own

_WRAPPED_KEY = re.compile(r" became .*\bmodule\.")
_WRAPPED = re.compile(r": key (\S+\.)?module\.\S+ is new")
_FIGURE = re.compile(r": line \d+: \S+ is not ")
_OF_WRAPPED = "a wrapped model is saved: its keys begin with 'module.' (unwrap it first)"
_LOCAL = "perhaps they are computed from one process's samples (gather_for_metrics, global_mean) or count some twice"
_CAUSES = {
    "dropout": "dropout: the processes draw other masks than one process does",
    "augmentation": "augmentation: samples are read with other random numbers than on one process",
    "shuffle": "shuffling: the samples come in another order",
    "denominators": "the processes average over unequal numbers of terms and their means count the same: the mean over the whole batch weighs them (accelerator.backward weighs by samples, its weight= by what you give it)",
    "batchnorm": "BatchNorm takes its statistics over each process's part of the batch, not over the whole",
}
_SAME_SAMPLES = (
    "rounding that this training amplifies: every batch holds the original's samples, and in a fixed order of them it rounds alike "
    "(Adam, say, divides gradients that are zero but for rounding by their own size)"
)
_ON_ONE = {
    "dropout": "dropout: other masks are drawn, since random numbers are drawn in another order or number than in the original",
    "augmentation": "augmentation: samples are read with other random numbers than in the original",
    "batchnorm": "BatchNorm: the layers are in another mode (train, eval), or run more or less often, or on other batches than in the original",
    "noise": "random draws in the training loop: they are other ones than in the original",
}
"""What `_CAUSES` are where nothing is shared out."""


def reasons(original: Traced, got: Traced, result: Comparison, cause: Cause | None, plain: Record | None = None) -> list[str]:
    """Best first; `plain` is the original at its own batch size, where larger batches of it are compared with."""
    kinds = {d.kind for d in result.differences}
    found = [*reasons_of_calls(got.run, got.records)]
    if kinds & {"hang", "timeout", "crash"}:
        return [*found, *reasons_of_errors(got.run, len(got.records)), *odd_one(got.run, len(got.records))]
    found += [*_from_processes(got, result), *_from_steps(original, got, kinds, plain)]
    if cause is not None and cause.switched_off:
        found += [_caused_by(name, original, got.records, result) for name in sorted(cause.switched_off, key=EXPECTED.__contains__)]
    else:
        found += reasons_of_gradients(original.records[0], got.records, result)
    found += _from_output(original.records[0], got.records, result, kinds)
    return list(dict.fromkeys(found))


def _caused_by(name: str, original: Traced, records: Sequence[Record], result: Comparison) -> str:
    if len(records) == 1 and name in _ON_ONE:
        return _ON_ONE[name]
    if name == "shuffle" and read_alike(original.records[0], records):
        return _SAME_SAMPLES
    if name == "precision":
        return rounding.reason(original.records[0], records)
    if name == "denominators":
        step = min((d.step for d in result.differences if d.kind in ("loss", "gradient")), default=1)
        return unequal_parts(original.records[0], records, step) or _CAUSES[name]
    if name == "batchnorm" and len(original.run.exit_codes) > 1:
        return f"{_CAUSES[name]}, in one of the two"
    if name != "noise":
        return _CAUSES[name]
    if draw_numbers_of_their_own(records):
        return "random draws in the training loop: each process draws numbers of its own"
    return "every process draws the same random numbers in the training loop, where the original draws others for every sample: draw for the whole batch and take this process's rows (accelerator.draw), or seed the processes differently once the models are made"


def _from_processes(got: Traced, result: Comparison) -> Iterator[str]:
    step = next((d.step for d in result.differences if d.kind == "replicas"), 0)
    if not step:
        return
    steps = [record.steps[step - 1] for record in got.records]
    if any(s.rates != steps[0].rates for s in steps):
        yield f"the processes use different learning rates at step {step}"
        return
    if all(_close(s.gradients, steps[0].gradients) for s in steps):
        yield "the processes apply the same gradient to different weights: the models are not made equal at the start (prepare does)"
        return
    places = range(len(steps[0].gradients))
    apart = [i for i in places if any(not _close(s.gradients[i : i + 1], steps[0].gradients[i : i + 1]) for s in steps[1:])]
    least = 1e-5 * max(steps[0].gradients, default=0.0)  # below it a gradient is zero but for rounding, and says nothing
    averaged = [i for i in places if i not in apart and steps[0].gradients[i] > least]
    if apart and len(apart) <= len(averaged):
        yield f"the gradients of {len(apart)} of {len(places)} parameters are not averaged over the processes (the first is {got.records[0].name(steps[0], apart[0])}): made after prepare, or their model is not prepared"
    else:
        yield "the gradients are not averaged over the processes: the model or the optimizer is not prepared, or no_sync covers the last backward before a step"


def _from_steps(original: Traced, got: Traced, kinds: set[str], plain: Record | None) -> Iterator[str]:
    processes, theirs, ours = len(got.records), len(original.records[0].steps), len(got.records[0].steps)
    if train_on_the_same(original.records[0], got.records) and kinds & {"samples", "loss", "gradient"} and _may_read_the_same(got.records):
        yield "every process computes the same losses: the loader is not prepared, so that each reads all samples"
    sizes = batch_sizes(original.records[0]), [batch_sizes(record) for record in got.records]
    if processes > 1 and sizes[0] and all(sizes[1]) and "samples" in kinds:
        whole, parts = sizes[0][0], sum(part[0] for part in sizes[1])
        if parts < whole:
            yield f"batches are cut twice: {parts} samples in a step over all processes where the original has {whole}"
    if "learning-rate" in kinds:
        yield _of_rates(original.records[0], got.records[0], plain)
    if "steps" in kinds and ours and theirs and (one := original.records[0].steps[0].backwards) != (other := got.records[0].steps[0].backwards):
        yield f"a step adds up {other} backward passes where the original adds up {one}: accumulation windows have another length ({ours} optimizer steps instead of {theirs})"
    elif "steps" in kinds and processes > 1 and ours == processes * theirs:
        yield f"{ours} optimizer steps where the original takes {theirs}: the length of a loader is taken before prepare, where it counts the batches of all processes"
    elif "steps" in kinds and ours != theirs:
        yield f"{ours} optimizer steps where the original takes {theirs}: loops or accumulation windows have another length"


def _may_read_the_same(records: list[Record]) -> bool:
    """Unless the indices say otherwise; streams have none."""
    first = [next((p.batches[0] for p in record.passes if p.trains), ()) for record in records]
    return all(batch == first[0] for batch in first)


def _of_rates(original: Record, got: Record, plain: Record | None) -> str:
    if plain is not None and _follow_samples(plain, original, got):
        return "the learning rate changes with the number of samples, as in the original at its own batch size: a prepared scheduler steps once for each process's batch"
    pairs = zip(original.steps, got.steps, strict=False)
    number, one, other = next((n, a.rates, b.rates) for n, (a, b) in enumerate(pairs, 1) if not _close(a.rates, b.rates))
    if number == 1:
        return f"the learning rate starts at {other[0]:.6g} instead of {one[0]:.6g}: it is scaled where the global batch stays the same"
    later = next((k for k, step in enumerate(original.steps, 1) if k > number and _close(step.rates, other)), 0)
    ahead = f", the original's of step {later}: the scheduler is ahead, it steps too often" if later else ": the scheduler steps at other times"
    return f"the learning rate leaves the original's at step {number}{ahead}"


def _follow_samples(plain: Record, larger: Record, got: Record) -> bool:
    """Whether after every step the rate is that of the original after as many samples, in its smaller batches."""
    times = len(plain.steps) // len(larger.steps) if larger.steps else 0
    pairs = list(zip(got.steps, plain.steps[::times] if times else [], strict=False))
    return times > 1 and len(pairs) > 1 and all(_close(a.rates, b.rates) for a, b in pairs)


def _from_output(original: Record, records: Sequence[Record], result: Comparison, kinds: set[str]) -> Iterator[str]:
    training = kinds & {"loss", "gradient", "replicas", "weights", "steps", "samples", "learning-rate"}
    figures = [d.text for d in result.differences if d.kind == "lines" or (d.kind == "files" and _FIGURE.search(d.text))]
    if figures and not training:
        texts = " ".join(figures)
        if _WRAPPED_KEY.search(texts):
            yield _OF_WRAPPED
        elif "lines are printed instead of" in texts:
            yield "lines are printed by every process: print on the main process only (accelerator.print)"
        else:
            what = "printed" if "lines" in kinds else "written"
            start = f"the training is the same and {what} figures are not" if result.steps else f"{what} figures are not the same"
            yield f"{start}: {reason_in_samples(original, records) or _LOCAL}"
    for difference in result.differences:
        if difference.kind == "files" and "at once" in difference.text:
            yield "files are written by every process: write on the main process only (accelerator.save, is_main_process)"
        elif difference.kind == "files" and _WRAPPED.search(difference.text):
            yield _OF_WRAPPED


def _close(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return len(a) == len(b) and all(abs(x - y) <= 1e-5 * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))
