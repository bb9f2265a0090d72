"""The parts of `accel verify` that need no run: what is compared, and how it is said."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from accel_migrate.command.verify_arguments import parse_verify_arguments
from accel_migrate.command.verify_chart import chart
from accel_migrate.command.verify_html import page
from accel_migrate.command.verify_table import block
from accel_migrate.errors import UserError
from accel_migrate.verify.job import Job, Run, copy_job
from accel_migrate.verify.jobs import job_for
from accel_migrate.verify.masks import masked
from accel_migrate.verify.places import branch_for_some, loop_left
from accel_migrate.verify.reasons import reasons
from accel_migrate.verify.records import Pass, Record, Step
from accel_migrate.verify.report import Comparison, Difference, Report
from accel_migrate.verify.runs import Traced
from accel_migrate.verify.samples import compare_samples
from accel_migrate.verify.stacks import describe
from accel_migrate.verify.suspects import Cause
from accel_migrate.verify.training import Floor, compare_training, noise_floor

STEP = Step(optimizer=0, loss=1.0, backwards=1, rates=(0.1,), gradients=(3.0, 4.0), weights=(1.0, 2.0))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("epoch 1 took 3.2s", "epoch 1 took 14.09s"),
        ("2024-05-01 10:11:12,123 loss 0.5", "2024-05-02 01:02:03,004 loss 0.5"),
        ("loss 0.5, 1200.5 samples/s", "loss 0.5, 300 samples/s"),
        ("elapsed: 12", "elapsed: 13"),
        ("saved to /scratch/a/out", "saved to /scratch/b/out"),
    ],
    ids=["seconds", "date and time", "throughput", "word before the number", "folder"],
)
def test_what_is_never_the_same_twice_is_left_out(one: str, other: str) -> None:
    assert masked([one], ["/scratch/a"]) == masked([other], ["/scratch/b"])


@pytest.mark.parametrize("line", ["loss 0.5", "epoch 3 of 10", "57 of 68 right", "step 3: lr 1e-3"])
def test_figures_stay(line: str) -> None:
    assert masked([line], []) == [line]


def record(*losses: float, **changes: object) -> Record:
    return Record([replace(STEP, loss=loss, **changes) for loss in losses])  # type: ignore[arg-type]


def kinds(original: Record, records: list[Record], floor: Floor | None = None) -> list[tuple[str, int]]:
    return [(d.kind, d.step) for d in compare_training(original, records, floor, 1e-4, {})]


def test_the_global_loss_is_the_mean_of_what_processes_contribute() -> None:
    assert kinds(record(1.0, 2.0), [record(0.5, 3.0), record(1.5, 1.0)]) == []
    assert kinds(record(1.0, 2.0), [record(0.5, 3.0), record(1.5, 1.1)]) == [("loss", 2)]


def test_a_difference_within_ten_times_the_floor_of_this_step_or_the_next_is_none() -> None:
    original = record(1.0, 1.0, 1.0)
    floor = noise_floor(original, record(1.0, 1.0, 1.00005), 1e-4)
    assert floor is not None
    assert kinds(original, [record(1.0, 1.0004, 1.0)], floor) == []
    assert kinds(original, [record(1.0004, 1.0, 1.0)], floor) == [("loss", 1)]


def test_a_control_run_that_trained_differently_sets_no_floor() -> None:
    assert noise_floor(record(1.0, 1.0), record(1.1, 1.0), 1e-4) is None


def test_a_loss_that_is_not_a_number_differs_from_numbers_only() -> None:
    nan = float("nan")
    assert kinds(record(nan), [record(nan)]) == []
    assert kinds(record(1.0), [record(nan)]) == [("loss", 1)]


def test_replicas_must_agree_to_the_last_bit() -> None:
    assert kinds(record(1.0), [record(1.0), record(1.0, weights=(1.0, 2.0000000001))]) == [("replicas", 1)]


def test_learning_rates_and_numbers_of_steps_count() -> None:
    assert kinds(record(1.0), [record(1.0, rates=(0.2,))]) == [("learning-rate", 1)]
    assert kinds(record(1.0, 1.0), [record(1.0)]) == [("steps", 0)]


def reading(*batches: tuple[int, ...], loss: float = 1.0) -> Record:
    return Record([replace(STEP, loss=loss)], [Pass(0, list(batches), trains=True, ended=True)])


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([((0, 1), (4,)), ((2, 3), (5,))], []),
        ([((0, 1), (4,)), ((2, 3), (0,))], ["samples"]),
        ([((0, 1, 2, 3), (4, 5)), ((0, 1, 2, 3), (4, 5))], ["samples"]),
        ([((0, 4), (1,)), ((2, 3), (5,))], ["order"]),
        ([((0,), (1,)), ((2,), (3,))], ["samples"]),
    ],
    ids=["cut", "one twice", "all by all", "other batches", "too few"],
)
def test_samples(parts: list[tuple[tuple[int, ...], ...]], found: list[str]) -> None:
    original = reading((0, 1, 2, 3), (4, 5))
    assert [d.kind for d in compare_samples(original, [reading(*part) for part in parts])] == found


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([((0, 0), (2,)), ((3, 1), (2,))], []),
        ([((0, 3), (1,)), ((3, 3), (2,))], ["order"]),
        ([((0, 3), (1,)), ((3, 3), ())], ["samples"]),
    ],
    ids=["the same draws", "other draws", "a sample too few"],
)
def test_samples_that_are_drawn_with_replacement_repeat_by_design(parts: list[tuple[tuple[int, ...], ...]], found: list[str]) -> None:
    original = reading((0, 3, 0, 1), (2, 2))
    assert [d.kind for d in compare_samples(original, [reading(*part) for part in parts])] == found


def test_whole_batches_read_by_all_and_cut_afterwards_are_right() -> None:
    records = [reading((0, 1), loss=0.5), reading((0, 1), loss=1.5)]
    assert compare_samples(reading((0, 1)), records) == []


SCRIPT = """\
for x in loader:
    if rank == 0:
        barrier()
    loss = step(x)
evaluate()
"""


def test_branches_and_loops_say_why_processes_stand_apart(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(SCRIPT)
    assert branch_for_some(tmp_path / "a.py", 3) == (2, "rank == 0")
    assert branch_for_some(tmp_path / "a.py", 4) is None
    assert loop_left(tmp_path / "a.py", 4, 5) == 1
    assert loop_left(tmp_path / "a.py", 5, 4) == 0


def failed(tmp_path: Path, errors: str, codes: tuple[int, ...] = (0, 1)) -> Run:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "rank1.err").write_text(errors)
    return Run(tmp_path, 1, (), "", (), 1.0, streams=tmp_path, exit_codes=codes, first_failed=1)


def test_a_crash_names_the_line_of_the_script_and_the_error(tmp_path: Path) -> None:
    trace = f'Traceback (most recent call last):\n  File "{tmp_path}/train.py", line 4, in <module>\n    loss = step(x)\nValueError: no\n'
    assert describe(failed(tmp_path, trace), 2) == "process 1 failed at train.py:4 `loss = step(x)`: ValueError: no (meanwhile process 0 ended)"


def test_messages_of_the_transport_are_collectives_out_of_step(tmp_path: Path) -> None:
    trace = f'Traceback (most recent call last):\n  File "{tmp_path}/train.py", line 4, in <module>\nRuntimeError: Connection closed by peer [127.0.0.1]:1\n'
    assert describe(failed(tmp_path, trace), 2).startswith("collectives are out of step: process 0 ended; process 1 failed at train.py:4")


def test_the_cpu_can_be_asked_for_as_of_the_other_commands():
    devices = [parse_verify_arguments(["a.py", *given]).device for given in ([], ["--cpu"], ["--device", "cpu"])]
    assert devices == ["auto", "cpu", "cpu"]



def test_the_scripts_arguments_follow_two_dashes() -> None:
    arguments = parse_verify_arguments(["a.py", "--processes", "2,4,2", "b.py", "--to-end", "--", "--steps", "7"])
    assert (arguments.original, arguments.migrated, arguments.processes) == ("a.py", "b.py", (2, 4))
    assert (arguments.steps, arguments.script_args) == (0, ["--steps", "7"])


@pytest.mark.parametrize("wrong", [["--processes", "0"], ["--rtol", "2"], ["--steps", "3", "--to-end"], []])
def test_wrong_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_verify_arguments([*wrong, "a.py"] if wrong else [])
    assert capsys.readouterr().err.startswith("accel verify: error: ")


def test_a_job_runs_in_a_copy_with_large_files_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user" / "src").mkdir(parents=True)
    (tmp_path / "user" / "src" / "train.py").write_text("init_process_group()")
    (tmp_path / "user" / "data.bin").write_bytes(bytes(2**21))
    monkeypatch.chdir(tmp_path / "user")
    job = job_for(Path("src/train.py"), ["--x"], changed={Path("src/train.py"): "import accelerate\n"})
    assert (job.folder, job.script, job.args, job.distributed) == (tmp_path / "user", "src/train.py", ("--x",), False)
    copy_job(job, tmp_path / "copy")
    assert (tmp_path / "copy" / "data.bin").is_symlink()
    assert (tmp_path / "copy" / "src" / "train.py").read_text() == "import accelerate\n"
    assert job_for(Path("src/train.py"), []).distributed


def test_a_missing_script_is_an_error_of_the_user() -> None:
    with pytest.raises(UserError, match="there is no such file"):
        job_for(Path("nowhere.py"), [])


class Balanced(HTMLParser):
    """Counts elements that are open, and notes what is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """`<line .../>` opens nothing."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_holds_curves_differences_and_diff(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("loss.backward()\nif a < b: pass\n")
    original = Job(tmp_path, "train.py")
    migrated = Job(tmp_path, "train.py", changed={"train.py": "accelerator.backward(loss)\nif a < b: pass\n"})
    comparison = Comparison(2, differences=[Difference("loss", "the loss is <nan>", 1)], unverified=["devices"], switched_off=("dropout",), apart=[0.0, 1e-7])
    report = Report("train.py", "train.py", [comparison], {"original": [1.0, 0.5], "2": [1.0, float("nan")]})
    text = page(report, original, migrated)
    parser = Balanced()
    parser.feed(text)
    assert (parser.open, parser.loaded) == ([], [])
    assert text.count("<polyline") == 3 and "migrated, 2 processes</span>" in text and "migrated, 2 processes, without dropout</span>" in text
    assert '<span class="add">+accelerator.backward(loss)</span>' in text
    assert "the loss is &lt;nan&gt;" in text and "<li>devices</li>" in text


def test_a_chart_of_nothing_says_so() -> None:
    assert chart({"original": []}, "losses") == "<p>No step was taken.</p>"


def test_the_whole_time_is_told_with_that_of_the_start() -> None:
    assert Report("a.py", "b.py", seconds=2.0).took == "2.0 s"
    assert Report("a.py", "b.py", seconds=2.0, total_seconds=5.5).took == "5.5 s, 3.5 s of them to start"


def test_floors_stand_beside_the_figures() -> None:
    comparison = Comparison(2, largest={"weights": 0.02, "files": 0.0}, floors={"weights": 0.01})
    lines = list(block(comparison))
    assert lines[1].startswith("  = weights") and lines[1].endswith("differ by 2.0e-02 at most   (rounding alone: 1.0e-02)")
    assert lines[2].endswith("0.0e+00 at most")


def test_on_one_process_nothing_is_said_of_parts_of_a_batch() -> None:
    result = Comparison(1, differences=[Difference("loss", "", 1)])
    traced = Traced(Run(Path("/nowhere"), 0, (), "", (), 1.0), [record(1.0)])
    assert reasons(traced, traced, result, Cause(("batchnorm",)))[0].startswith("BatchNorm: the layers are in another mode")


def test_a_script_is_named_by_what_sets_it_apart(tmp_path: Path) -> None:
    one = Job(tmp_path, "train.py")
    assert Job(tmp_path, "train.py", changed={"train.py": "x"}).shown_beside(one) == "what accel-migrate makes of it"
    assert Job(tmp_path, "train.py").shown_beside(one) == "itself"
    assert Job(tmp_path / "out", "train.py").shown_beside(one) == str(tmp_path / "out" / "train.py")
    assert Job(tmp_path, "a_ipynb.py").shown_beside(one) == "a.ipynb"
