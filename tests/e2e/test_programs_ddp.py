"""Programs with processes of their own, as people write them, run before and after the migration.

Where the sampler is kept, two processes compute what two processes computed before. Where a flag turned the processes on,
any number of processes computes what one process did.

| program | what it is about |
| --- | --- |
| config_flag | a switch on a class of settings, helpers that ask it |
| data_parallel | `nn.DataParallel` under a condition on the number of devices, `isinstance(model, nn.DataParallel)` |
| env_switch | `WORLD_SIZE` from the environment decides; a learning rate scaled by the number of processes |
| gathered_metrics | `all_gather`, `all_gather_object`, `broadcast`, a reduction to the maximum, a confusion matrix |
| init_mode | `init_distributed_mode(args)` and its helpers in a module of their own, meters that synchronise, `save_on_master` |
| local_rank_args | `--local_rank`, `n_gpu`, `nn.DataParallel` beside DDP, the main process goes first by two barriers |
| no_sync | accumulation with `no_sync`, unused parameters |
| optional_flag | `--multiprocessing-distributed` and its kin, `mp.spawn` in one branch, DDP and DataParallel in others |
| process_loop | a loop that starts processes, gradients averaged by hand |
| slurm_file | ranks from Slurm or torchrun kept in the options, a barrier in a helper of its own |
| spawn_worker | `mp.spawn`, rank and world size as parameters, a port as an argument |
| torchrun_setup | `setup()` that returns rank, world size and device, a helper that averages a loss, a batch size divided |
| trainer_class | a trainer that reads `LOCAL_RANK`, a snapshot to resume from |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.warm import ForkingRunner
from e2e import launch
from e2e.compare import compare_runs
from e2e.migrated import accel_migrate, migrate
from e2e.patient import patiently, run_patiently

PROGRAMS = Path(__file__).parent / "programs_ddp"
SCRIPT = "train.py"
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
"""What torchrun gives to a single process."""


@dataclass(frozen=True)
class Program:
    """How the original runs: under `launcher` on one process too, or starting its own; or as one process only."""

    own_start: bool = False
    single: bool = False
    launched: bool = True
    args: tuple[str, ...] = ()


CASES = {
    "config_flag": Program(single=True),
    "data_parallel": Program(single=True),
    "env_switch": Program(launched=False),
    "gathered_metrics": Program(),
    "init_mode": Program(launched=False),
    "local_rank_args": Program(launched=False),
    "no_sync": Program(),
    "optional_flag": Program(single=True),
    "process_loop": Program(own_start=True),
    "slurm_file": Program(),
    "spawn_worker": Program(own_start=True),
    "torchrun_setup": Program(),
    "trainer_class": Program(),
}
ABOUT_THE_GROUP = ("distributed init", "Not using distributed mode", "is ready", "worker ")


@pytest.mark.parametrize("name", sorted(CASES))
def test_trains_the_same(runner: ForkingRunner, run_once: Callable[..., Run], tmp_path: Path, name: str) -> None:
    program, folder = CASES[name], PROGRAMS / name
    migration = migrate(folder, SCRIPT, tmp_path)
    assert migration.migrated, migration.printed
    after = Job(migration.folder, SCRIPT, program.args)
    for processes in (1, 2):
        expected = original_run(runner, run_once, tmp_path, name, processes)
        got = run_patiently(runner, after, processes)
        if expected is None:
            assert got.succeeded, got.errors
            continue
        verdict = compare_runs(without_talk(expected), without_talk(got))
        assert verdict.same, f"on {processes} processes {verdict}\n{got.errors}"
    again = accel_migrate(migration.folder, SCRIPT, "--check")
    assert again.returncode == 0, again.stdout


def original_run(runner: ForkingRunner, run_once: Callable[..., Run], scratch: Path, name: str, processes: int) -> Run | None:
    """What the result on `processes` must agree with; None where the original cannot run on so many."""
    program = CASES[name]
    if program.own_start:
        return None if processes == 1 else patiently(lambda: launch.run(Job(PROGRAMS / name, SCRIPT, program.args), 1, scratch))
    if program.single:
        return run_once(Job(PROGRAMS / name, SCRIPT, program.args))
    env = ALONE if processes == 1 and program.launched else {}
    return run_patiently(runner, Job(PROGRAMS / name, SCRIPT, program.args, env=env), processes)


def without_talk(run: Run) -> Run:
    """`run` without the lines that say which processes there are, in an order that does not depend on which comes first."""
    lines = tuple(sorted(line for line in run.lines if line and not any(text in line for text in ABOUT_THE_GROUP)))
    return Run(run.folder, run.exit_code, lines, run.errors, run.written, run.seconds, run.timed_out)
