"""The verification in order: run both, compare, and explain what differs."""

from __future__ import annotations

import math
import time
from dataclasses import replace

from accel_migrate.errors import UserError
from accel_migrate.verify import files, output, own_batches, rounding
from accel_migrate.verify.calls import compare_calls
from accel_migrate.verify.checkpoints import compare_checkpoints
from accel_migrate.verify.errors import hint
from accel_migrate.verify.figures import OfOriginal
from accel_migrate.verify.reasons import reasons
from accel_migrate.verify.records import Record, global_losses
from accel_migrate.verify.report import DIFFERENT, SAME, Comparison, Difference, Report
from accel_migrate.verify.runs import Request, Runs, Tell, Traced
from accel_migrate.verify.samples import compare_samples
from accel_migrate.verify.stacks import describe
from accel_migrate.verify.suspects import Cause, find_cause, is_expected
from accel_migrate.verify.training import Floor, apart, compare_training, lost_in_rounding, noise_floor
from accel_migrate.verify.warm import ForkingRunner

_BY_CHANCE = ("loss", "gradient", "weights", "order", "lines", "files")
"""Kinds of differences which other random numbers can explain."""
_FAILED = ("crash", "hang", "timeout")
_BESIDE = ("samples", "steps", "calls", "fault", "loading")
"""Kinds which may stand beside those."""


def verify(request: Request, warm: ForkingRunner, tell: Tell = lambda what: None) -> Report:
    """Compare the original on one process with the migrated script on each number of processes.

    Raises:
        UserError: the original itself does not run, or does not train.
    """
    started = time.monotonic()
    runs = Runs(request, warm, tell)
    if request.original.distributed:
        runs = runs.with_original_on(request.processes[0])
    report = Report(request.original.shown, request.migrated.shown_beside(request.original))
    original = _original(runs)
    report.losses["original"] = [step.loss for step in original.records[0].steps]
    for processes in request.processes:
        comparison = _against_several(runs, processes) if request.original.distributed else _explained(runs, processes)
        _add_other_original(report, runs, comparison)
        report.losses[str(processes)] = global_losses(runs.migrated(processes).records)
        report.comparisons.append(comparison)
    report.seconds = time.monotonic() - started
    _check(original, report)
    return report


def _add_other_original(report: Report, runs: Runs, comparison: Comparison) -> None:
    """The losses that these were compared with, where that was another run of the original."""
    several, larger = comparison.original_processes, comparison.times_as_large
    if (several, larger) == (runs.request.original_processes, 1):
        return
    name = "original" + (f" on {several} processes" if several > 1 else "") + (f", batches {larger} times as large" if larger > 1 else "")
    other = runs.with_original_on(several).with_larger_batches(larger).original()
    report.losses[name] = [step.loss for step in other.records[0].steps]


def _against_several(runs: Runs, processes: int) -> Comparison:
    """With an original that trains on several itself: as it does on so many, or else as it does on one."""
    these, one = runs.with_original_on(processes), runs.with_original_on(1)
    _original(these)
    result = _explained(these, processes)
    if processes == 1 or result.verdict != DIFFERENT or not one.original().run.succeeded:
        return result
    other = _explained(one, processes)
    if other.verdict == DIFFERENT:
        return result
    why = f": {result.reasons[0]}" if result.reasons else ""
    return replace(other, unverified=[*other.unverified, f"the original on {processes} processes, which is not the same training as on one{why}"])


def _original(runs: Runs) -> Traced:
    original = runs.original()
    if not original.run.succeeded:
        said = describe(original.run, runs.request.original_processes)
        raise UserError(f"the original does not run: {said}{hint(said, runs.request.original.script)}")
    return original


def _check(original: Traced, report: Report) -> None:
    if report.verdict == SAME and not original.records[0].steps and not original.records[0].passes:
        raise UserError(f"{report.original} takes no optimizer step and reads no data: there is no training to compare")


def _explained(runs: Runs, processes: int) -> Comparison:
    """With the original as it is, or with larger batches where each process takes one of its own: then that is a difference."""
    original = runs.original().records[0]
    times = own_batches.times_as_large(original, runs.migrated(processes).records)
    larger = runs.with_larger_batches(times)
    if times == 1 or not larger.original().run.succeeded:
        return _examined(runs, processes)
    rest = _examined(larger, processes, original)
    differences = [*rest.differences, own_batches.difference(original, times)]
    why = own_batches.reason(original, times)
    said = [*rest.reasons, why] if rest.verdict == DIFFERENT else [why, *rest.reasons]
    return replace(rest, differences=differences, reasons=said, times_as_large=times)


def _examined(runs: Runs, processes: int, plain: Record | None = None) -> Comparison:
    """The comparison, with the reason for its differences; those which chance explains are expected."""
    result = _compared(runs, processes, ())
    if runs.migrated(processes).run.succeeded:
        compare_checkpoints(runs, processes, runs.original(), runs.migrated(processes), result)
    if not result.differences:
        return result
    base, seen = _in_full_precision(runs, processes, result)
    original, got = runs.original(off=base), runs.migrated(processes, off=base)
    cause = find_cause(runs, processes, seen, base) if _may_be_chance(seen) else None
    low = _compared(runs, processes, cause.switched_off) if base and cause else result
    if base and not _by_chance(seen):
        cause = Cause(base)
    elif base and cause and cause.switched_off and _by_chance(low):
        cause = Cause((*base, *cause.switched_off))
    plain_runs = runs.original().records[0], runs.migrated(processes).records
    alike = rounding.rounds_alike(*plain_runs, low)
    result.reasons = reasons(original, got, seen, _beyond(cause, base), plain)
    expected = cause is not None and is_expected(cause, plain_runs[1], runs.request.original_processes > 1, alike)
    if cause and set(base) & set(cause.switched_off) and (expected or not _by_chance(seen)):
        result.reasons.insert(0, rounding.reason(*plain_runs))
    if cause and expected:
        return _rest(runs, processes, result, cause)
    return _with_rounding(result, seen) if base and _by_chance(seen) else result


def _in_full_precision(runs: Runs, processes: int, result: Comparison) -> tuple[tuple[str, ...], Comparison]:
    """What differs in float32, where the runs compute in less and it tells more than they do; and what is switched off for it."""
    if _by_chance(result) and rounding.is_low(runs, processes):
        raised = _compared(runs, processes, rounding.RAISED)
        if not any(d.kind in _FAILED for d in raised.differences) and runs.original(off=rounding.RAISED).run.succeeded:
            return rounding.RAISED, raised
    return (), result


def _beyond(cause: Cause | None, base: tuple[str, ...]) -> Cause | None:
    return cause and Cause(tuple(name for name in cause.switched_off if name not in base))


def _with_rounding(low: Comparison, raised: Comparison) -> Comparison:
    """A difference in float32, with what low precision alone adds to it."""
    kinds = {d.kind for d in raised.differences}
    kept = [d for d in low.differences if d.kind not in _BY_CHANCE and d not in raised.differences]
    rounded = [replace(d, expected=True) for d in _by_chance(low) if d.kind not in kinds]
    return replace(raised, differences=[*raised.differences, *kept, *rounded], reasons=low.reasons, loaded=low.loaded)


def _by_chance(result: Comparison) -> list[Difference]:
    return [d for d in result.differences if d.kind in _BY_CHANCE]


def _may_be_chance(result: Comparison) -> bool:
    """Whether other random numbers could be the cause: figures differ, and all are finite."""
    figures = [d.size for d in result.differences if d.kind in ("loss", "gradient")]
    return all(d.kind in (*_BY_CHANCE, *_BESIDE) for d in result.differences) and bool(figures) and all(map(math.isfinite, figures))


def _rest(runs: Runs, processes: int, first: Comparison, cause: Cause) -> Comparison:
    """What differs still when the cause is switched off, and what was there before and is not by chance."""
    rest = _compared(runs, processes, cause.switched_off)
    kept = [d for d in first.differences if d.kind not in _BY_CHANCE and d not in rest.differences]
    expected = [replace(d, expected=True) for d in first.differences if d.kind in _BY_CHANCE]
    left = [*rest.differences, *kept]
    if left:
        rest.reasons = reasons(runs.original(off=cause.switched_off), runs.migrated(processes, off=cause.switched_off), replace(rest, differences=left), None)
    return replace(rest, differences=[*left, *expected], reasons=list(dict.fromkeys([*rest.reasons, *first.reasons])), switched_off=cause.switched_off, loaded=first.loaded)


def _compared(runs: Runs, processes: int, off: tuple[str, ...]) -> Comparison:
    """Against the noise floor of the control run, and where that does not explain a difference, against the nudged one's."""
    started = time.monotonic()
    original, control, got = runs.original(off=off), runs.original(off=off, control=True), runs.migrated(processes, off=off)
    result = Comparison(processes, steps=min(len(record.steps) for record in got.records), switched_off=off, original_processes=runs.request.original_processes, unverified=_unverified(runs, original))
    if not got.run.succeeded:
        kind = "hang" if got.run.hung else "timeout" if got.run.timed_out else "crash"
        result.differences.append(Difference(kind, describe(got.run, processes)))
        return replace(result, seconds=time.monotonic() - started)
    relative = runs.request.relative
    floor = noise_floor(original.records[0], control.records[0], relative) if control.run.succeeded else None
    found = _against(runs, (original, control, got), floor, result) if floor else None
    if found is None or any(d.kind in _BY_CHANCE for d in found.differences):
        control = runs.original(off=off, nudged=True)
        floor = noise_floor(original.records[0], control.records[0], relative, trusted=True) if control.run.succeeded else None
        other = _against(runs, (original, control, got), floor, result)
        found = other if found is None or len(other.differences) < len(found.differences) else found
    return replace(found, seconds=time.monotonic() - started)


def _against(runs: Runs, traced: tuple[Traced, Traced, Traced], floor: Floor | None, begun: Comparison) -> Comparison:
    """What differs between the original and the migrated run; the control run between them has this floor."""
    relative, (original, control, got), processes = runs.request.relative, traced, begun.processes
    result = replace(begun, differences=[], reasons=[], largest={}, unverified=list(begun.unverified))
    result.apart = [apart(step.loss, loss) for step, loss in zip(original.records[0].steps, global_losses(got.records), strict=False)]
    result.floors = {"loss": max(floor.losses, default=0.0), "gradient": max(floor.gradients, default=0.0)} if floor else {}
    result.differences += compare_training(original.records[0], got.records, floor, relative, result.largest)
    result.differences += [*compare_samples(original.records[0], got.records), *compare_calls(got.run, got.records)]
    result.unverified += lost_in_rounding(floor, len(original.records[0].steps))
    useful = control.run if floor else None
    theirs = OfOriginal(original.run, useful, lambda: runs.original(off=begun.switched_off, again=True).run)
    output.compare_printed(theirs, got.run, processes, relative, result)
    files.compare_on_disk(runs.warm, theirs, got.run, relative, result)
    output.compare_weights(runs.warm, original.run, useful, got.run, relative, result)
    if len(original.records[0].steps) == result.steps or not any(d.kind == "steps" for d in result.differences):
        result.differences += files.written_by_several(got.records)
    return result


def _unverified(runs: Runs, original: Traced) -> list[str]:
    left = []
    if original.records[0].how == "stopped":
        left.append(f"what comes after {len(original.records[0].steps)} optimizer steps (--to-end runs to the end)")
    if not original.records[0].steps:
        left.append("training: the original takes no optimizer step")
    if runs.request.cpu:
        left.append("devices: all processes ran on the CPU")
    return left
