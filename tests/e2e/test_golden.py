"""The golden scripts: as an engineer migrated them by hand, and as the tool does, on 1, 2 and 3 processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from accel_migrate.verify.hooks.unpickled import load_saved
from accel_migrate.verify.job import Job, Run
from accel_migrate.verify.printed import compare_lines
from accel_migrate.verify.warm import ForkingRunner
from e2e import launch
from e2e.compare import Verdict, compare_runs
from e2e.migrated import DONE, accel_migrate, migrate
from e2e.patient import run_patiently

GOLDEN = Path(__file__).parent / "golden"
ARGS: dict[str, tuple[str, ...]] = {
    "flat": (),
    "functions": ("--save-model",),
    "trainer_class": (),
    "gan": (),
    "full_featured": (),
}
RunOnce = Callable[..., Run]


def job(name: str, script: str, folder: Path | None = None) -> Job:
    return Job(folder or GOLDEN / name, script, ARGS.get(name, ()))


@pytest.fixture(scope="session")
def after(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Job]:
    """`after(name, by)`: the migrated script, by "hand" or by the "tool"."""
    done: dict[str, Job] = {}

    def migrated(name: str, by: str) -> Job:
        if by == "hand":
            return job(name, "after.py")
        if name not in done:
            migration = migrate(GOLDEN / name, "before.py", tmp_path_factory.mktemp(name))
            assert migration.exit_code == DONE, migration.printed
            done[name] = job(name, "before.py", migration.folder)
        return done[name]

    return migrated


def compare(run_once: RunOnce, name: str, got: Run) -> Verdict:
    original = run_once(job(name, "before.py"))
    control = run_once(job(name, "before.py"), reverse_batches=True)
    return compare_runs(original, got, control)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("by", ["hand", "tool"])
@pytest.mark.parametrize("name", ARGS)
def test_prints_and_saves_what_the_original_does(
    runner: ForkingRunner, run_once: RunOnce, after: Callable[[str, str], Job], name: str, by: str, processes: int
) -> None:
    verdict = compare(run_once, name, runner.run(after(name, by), processes))
    assert verdict.same, str(verdict)
    if processes == 1:
        assert (verdict.printed, verdict.saved) == (0.0, 0.0), "one process does exactly what the original does"


@pytest.mark.parametrize("name", [*ARGS, "handmade_ddp"])
def test_the_tool_changes_nothing_in_its_own_output(after: Callable[[str, str], Job], name: str) -> None:
    migrated = after(name, "tool")
    text = (migrated.folder / "before.py").read_bytes()
    again = accel_migrate(migrated.folder, "before.py", "--write")
    assert (again.returncode, (migrated.folder / "before.py").read_bytes()) == (DONE, text), again.stdout


@pytest.mark.parametrize(("by", "relative"), [("hand", 0.5), ("tool", 1e-4)])
def test_handmade_ddp_keeps_its_lines_and_keys(
    runner: ForkingRunner, after: Callable[[str, str], Job], by: str, relative: float
) -> None:
    """The tool keeps the DistributedSampler, and with it the order of the samples. Done by hand without it, the losses
    agree in distribution only: those of the original spread from 1.25 to 1.76 over seeds of its sampler."""
    original = run_patiently(runner, job("handmade_ddp", "before.py"), 2)
    got = runner.run(after("handmade_ddp", by), 2)
    assert original.succeeded and got.succeeded, got.errors
    assert compare_lines(original.lines, got.lines, relative=relative).reasons == []
    assert load_saved(got.folder / "ddp.pt").keys() == load_saved(original.folder / "ddp.pt").keys()


@pytest.mark.parametrize("by", ["hand", "tool"])
def test_a_checkpoint_of_two_processes_resumes_the_original(
    runner: ForkingRunner, run_once: RunOnce, after: Callable[[str, str], Job], by: str
) -> None:
    original, migrated = job("full_featured", "before.py"), after("full_featured", by)
    from_original, from_migrated = run_once(original), runner.run(migrated, 2)
    args = ("--resume", "out/checkpoint.pt", "--epochs", "3", "--output_dir", "resumed")
    expected = runner.run(Job(from_original.folder, "before.py", args))
    (from_migrated.folder / "original.py").write_bytes((GOLDEN / "full_featured" / "before.py").read_bytes())
    forth = runner.run(Job(from_migrated.folder, "original.py", args))
    back = runner.run(Job(from_migrated.folder, migrated.script, args), 2)
    for resumed in (forth, back):
        verdict = compare_runs(expected, resumed, ignore_files=["tfevents"])
        assert verdict.same, str(verdict)


@pytest.mark.torchrun
@pytest.mark.parametrize("name", ["flat", "full_featured"])
def test_under_torchrun(run_once: RunOnce, after: Callable[[str, str], Job], tmp_path: Path, name: str) -> None:
    migrated = launch.run(after(name, "tool"), 2, tmp_path)
    if "SIGABRT" in migrated.errors:  # gloo has been seen to abort at exit, rarely, when everything is printed and saved
        migrated = launch.run(after(name, "tool"), 2, tmp_path)
    verdict = compare(run_once, name, migrated)
    assert verdict.same, str(verdict)
