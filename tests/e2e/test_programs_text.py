"""Text, mixed precision and bookkeeping programs, migrated and run on 1, 2 and 3 processes.

| program | what it is about |
| --- | --- |
| amp_classic | `GradScaler` passed on as a parameter, an `enabled` flag, clipping after `unscale_`, its state saved |
| causal_lm_shift | shifted labels inside `forward`, padding by `collate_fn`, `-100`, the best checkpoint loaded again |
| dice_focal | losses of one's own with a `reduction`, KL with `batchmean`, a sum of tasks, a running mean, the norm of gradients |
| dict_batches | dict batches, a dataclass as output, warm-up from `len(loader) * epochs`, `np.append` of predictions |
| iterable_stream | an iterable data set, an iterator that is begun again, learning rates set by hand |
| kaggle_bert | a scaler that may be None, settings on a class, lists of scores, predictions written into an array at an offset |
| lm_ppl | tokens per second and perplexity, a metric scheduler, the whole model saved and loaded again |
| logging_csv_json | a logger with file and stream handlers, csv, json, TensorBoard, a dict of settings |
| masked_lm | labels of -100 without `ignore_index`, a loss that the model returns, accuracy on the masked tokens |
| pack_rnn | a collate object that sorts and pads, packed sequences, accuracy by token and by sequence |
| resume_two | a second model that resumes from the first one's file, replaced atomically; `loss < best` in the loop |
| token_norm | a summed loss over the number of tokens, in a callable that also steps |
| trainer_full | a trainer with early stopping, best and last checkpoints, a batch helper for both phases |
| weighted_sampler_multi | weighted and batch samplers, strings in batches, scores for ROC curves |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.migrated import DONE, accel_migrate, migrate

PROGRAMS = Path(__file__).parent / "programs_text"
SCRIPT = "train.py"


@pytest.mark.parametrize("name", sorted(path.name for path in PROGRAMS.iterdir()))
def test_trains_the_same(runner: ForkingRunner, run_once: Callable[..., Run], tmp_path: Path, name: str) -> None:
    original = Job(PROGRAMS / name, SCRIPT)
    migration = migrate(original.folder, SCRIPT, tmp_path)
    assert (migration.migrated, migration.findings) == (True, []), migration.printed
    expected, control = run_once(original), run_once(original, reverse_batches=True)
    for processes in (1, 3):
        verdict = compare_runs(expected, runner.run(Job(migration.folder, SCRIPT), processes), control)
        assert verdict.same, f"on {processes} processes {verdict}"
    text = (migration.folder / SCRIPT).read_bytes()
    again = accel_migrate(migration.folder, SCRIPT, "--write")
    assert (again.returncode, (migration.folder / SCRIPT).read_bytes()) == (DONE, text), again.stdout
