"""Small scripts, each with one trap: migrated so that they train the same, or left with a finding where the trap is.

| case | what must come out |
| --- | --- |
| batchnorm_small_batch | statistics over the global batch; `net[1].running_mean` still reads |
| class_trainer_and_helpers | everything on `self`, a helper that moves batches, a per-epoch scheduler |
| custom_train_method | training through a method of the model, which draws noise for each sample |
| dataparallel_leftover | `nn.DataParallel` and `.module` go, the keys stay |
| device_name | a device that is used as a string stays one |
| effective_batch_and_lr | the global batch stays, so the steps and `step * BATCH_SIZE` stay right |
| ema_by_name | an average by parameter name finds its names |
| manual_modulo_accumulation | two of ten batches are left over in each epoch, and never stepped on at its end |
| onecycle_per_batch | one tick per step, length from the data set |
| oom_try_except | nothing: it draws its batches itself, so there is none to share out; or a finding at the `try` |
| running_loss_over_dataset_len | sums over samples, divided by the size of the data set |
| token_mean_accumulation | sums over tokens of a window: the count is global, or there is a finding |
| weighted_sampler | the sampler stays, its draws are the same everywhere, the counter is global |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e.compare import compare_runs
from e2e.migrated import DONE, NOTHING_MIGRATED, accel_migrate, migrate

CASES = Path(__file__).parent / "cases"
FINDING_INSTEAD: dict[str, set[int]] = {
    "oom_try_except": {21, 22, 23, 29},
    "token_mean_accumulation": {17, 26, 31, 32},
}
"""Lines where a finding is a right answer too."""
MAY_BE_REFUSED = {"oom_try_except"}


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_trains_the_same_or_names_the_trap(
    runner: ForkingRunner, run_once: Callable[..., Run], tmp_path: Path, name: str
) -> None:
    original = Job(CASES / name, "before.py")
    migration = migrate(original.folder, original.script, tmp_path)
    if FINDING_INSTEAD.get(name, set()) & {line for line, _ in migration.findings}:
        return
    if name in MAY_BE_REFUSED and migration.exit_code == NOTHING_MIGRATED:
        return
    assert migration.migrated, migration.printed
    expected, control = run_once(original), run_once(original, reverse_batches=True)
    for processes in (1, 2, 3):
        verdict = compare_runs(expected, runner.run(Job(migration.folder, "before.py"), processes), control)
        assert verdict.same, f"on {processes} processes {verdict}"
    text = (migration.folder / "before.py").read_bytes()
    again = accel_migrate(migration.folder, "before.py", "--write")
    assert (again.returncode, (migration.folder / "before.py").read_bytes()) == (DONE, text), again.stdout
