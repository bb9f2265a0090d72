"""Training programs as people write them, migrated and run on 1, 2 and 3 processes.

| program | what it is about |
| --- | --- |
| adversarial | gradients with respect to inputs, by sign and by size, a gradient given for each row |
| augmented | samples augmented as they are read, blocks as classes of sequences and lists, rows repeated by hand |
| autoencoder | `use_gpu` branches and conditional moves, `Variable`, the last batch's loss and pictures after the loop |
| by_index | no loader: batches by a permutation in a trainer class, slices for evaluation, BatchNorm |
| callbacks | a base trainer, callbacks that print, keep and save, loss and metrics from one method |
| centre | a running centre, a queue of keys and an averaged teacher, in modules without gradients |
| characters | no loader: `get_batch()` from one long text, the loss estimated by a function, text generated |
| codebook | running counts and sums of a codebook, kept by a module in its own file; dict(...) of figures |
| comprehensions | outputs, rows and figures kept by comprehensions over a loader |
| constant_batch | the batch size of the loader as a constant in shapes, in the model too |
| device_loader | a loader wrapped to move its batches, steps as methods of the model, their results kept in dicts |
| distillation | two trainings in a row by functions that make their own optimizers |
| drawn_by_next | batches taken by `next` in a loop over steps, a new iterator when one ends |
| drawn_inside | samples of distributions, draws in place, weights from the losses of the batch, tensors that sum up in place |
| early_stopping | `print` as a default argument, index samplers, the best checkpoint loaded again |
| ema_class | an averaged copy in a module of its own, a custom loss, a warm-up schedule by lambda, a running loss |
| events | callbacks in a defaultdict that show the trainer's loss, batches drawn by `next` until they end |
| filled | arrays filled by a running pointer and by the samples' index |
| filtered_rows | rows chosen by masks and their places, small batches left out, outputs of a training epoch joined |
| generators | no loader: a generator of shuffled NumPy batches, lists of batches, data that are split, slices of scikit-learn |
| image_tutorial | batches drawn to look at before and after training, per-class accuracy |
| kept_figures | losses kept as tensors: the best, the last, a running mean, one for each epoch, a sum in place |
| lenet | an `accuracy` helper for training and evaluation, sums added to an accumulator |
| looked_at | loaders that are only read for statistics, which nobody prepares |
| mean_teacher | `zip` of two loaders, an averaged teacher, noise with the size of the batch |
| meters | several files, AverageMeter, top-k accuracy, `args.gpu`, DataParallel, resume |
| metric_logger | a logger whose generator hands out the batches, `device` passed by keyword, meters by name |
| multitask | nested dict batches, losses from a method of the model, one function for both phases, logging set up at import |
| partners | pictures mixed with others of their batch: by a drawn order, from behind, by their neighbours |
| partial_step | a step bound by `functools.partial`, summed up by a generator |
| prefetched | no loader: the next batch fetched before the step of this one, a class that hands out batches, batches given to the model at once |
| recurrent_state | the state of an LSTM made for whole batches, handed on from batch to batch, started anew for evaluation |
| registry | packages, models and optimizers by name, loaders in a dict, a logger with handlers |
| sample_lists | no loader: samples in lists, windows of a text, slices of the shuffled list |
| segmentation | dict batches, evaluation in mid-epoch, Dice, a metric scheduler, BatchNorm |
| settings_file | loader, model, optimizer and scheduler made by one function, by names in a file; a class method; metrics by name |
| single_rows | single rows and elements of batch and output, printed |
| step_tuples | a step that returns loss and number of rows, collected by `zip(*[...])`, a metric scheduler, early stopping |
| summed_batches | one backward pass from the losses of several batches, in a list or a sum |
| time_budget | a loop that ends by the clock or by a signal, a log every so many seconds |
| trainer_fit | a trainer that takes model, optimizer and loaders from outside, its best checkpoint loaded again |
| transfer_learning | loaders in a dict, phases in one loop, a frozen backbone, the best weights |
| two_trainings | model, optimizer and scheduler made anew under the same names, after a training with the first ones |
| wgan_class | a trainer class that chooses its device, loaders from outside, `next` in a while loop |
| wgan_gp | NumPy noise with the size of the batch, gradient penalty, critic steps, rows saved |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.migrated import migrate

PROGRAMS = Path(__file__).parent / "programs"
SCRIPT = "train.py"
FINDINGS = {"mean_teacher": {"two-loaders"}, "meters": {"wrapped-keys"}}
"""What must be reported; everything else goes without a word."""
NAMES = sorted(path.name for path in PROGRAMS.iterdir())
EXACT_ON = {name: (1, 2 + place % 2) for place, name in enumerate(NAMES)} | {"mean_teacher": (1, 2)}
"""On one process, and on two or three in turn; two where a finding says so."""


@pytest.mark.parametrize("name", NAMES)
def test_trains_the_same(runner: ForkingRunner, run_once: Callable[..., Run], tmp_path: Path, name: str) -> None:
    original = Job(PROGRAMS / name, SCRIPT)
    migration = migrate(original.folder, SCRIPT, tmp_path)
    assert migration.migrated, migration.printed
    assert {rule for _, rule in migration.findings} == FINDINGS.get(name, set()), migration.printed
    expected, control = run_once(original), run_once(original, reverse_batches=True)
    for processes in EXACT_ON[name]:
        verdict = compare_runs(expected, runner.run(Job(migration.folder, SCRIPT), processes), control)
        assert verdict.same, f"on {processes} processes {verdict}"
