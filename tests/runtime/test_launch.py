"""`accel launch`: what the command line means, and real launches."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accel_runtime import launch
from accel_runtime.launch_arguments import LaunchError, parse

RUNTIME = str(Path(launch.__file__).parent.parent)

SCRIPT = """
import os, sys
from accel_runtime import PartialState
state = PartialState()
line = [state.process_index, state.num_processes, os.environ["ACCELERATE_MIXED_PRECISION"], *sys.argv[1:]]
sys.stdout.write(" ".join(map(str, line)) + chr(10))
state.wait_for_everyone()
if "fail" in sys.argv and state.is_last_process:
    sys.exit(7)
"""


def launched(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": RUNTIME, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "accel_runtime.launch", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_both_spellings_and_the_scripts_own_options():
    options = parse(["--num-processes", "2", "--mixed_precision", "bf16", "x.py", "--num_processes", "9"])
    assert (options.num_processes, options.mixed_precision, options.training_script_args) == (2, "bf16", ["--num_processes", "9"])
    assert (options.num_machines, options.cpu, options.gpu_ids) == (1, False, "all")


def test_the_command_line_wins_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("distributed_type: MULTI_CPU\nnum_processes: 3\nuse_cpu: true\nmixed_precision: bf16\nmain_process_port: 1234\n")
    options = parse(["--config_file", str(file), "--num_processes", "2", "x.py"])
    assert (options.num_processes, options.cpu, options.mixed_precision, options.main_process_port) == (2, True, "bf16", 1234)


@pytest.mark.parametrize(("text", "message"), [("- a", "must hold a YAML mapping"), ("a: [", "cannot read"), ("distributed_type: TPU", "distributed_type is TPU")])
def test_bad_configuration_files(tmp_path, text, message):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(LaunchError, match=message):
        parse(["--config_file", str(file), "x.py"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "no such script: missing.py"),
        (["--num_machines", "2", "--main_process_ip", "a", "--num_processes", "3", __file__], "does not divide among"),
        (["--num_machines", "2", __file__], "needs --main_process_ip"),
        (["--gpu_ids", "0,1", "--num_processes", "3", __file__], "it has 2 devices"),
    ],
)
def test_impossible_launches_are_one_line_and_exit_code_2(arguments, message, capsys):
    assert launch.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_threads_are_shared_out(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8), raising=False)
    assert [launch._threads(None, n) for n in (1, 2, 16)] == [None, 4, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert launch._threads(None, 2) is None and launch._threads(5, 2) == 5


def test_one_process_needs_no_process_group(script):
    done = launched("--cpu", "--num_processes", "1", "--mixed_precision", "bf16", script, "--x")
    assert (done.returncode, done.stdout) == (0, "0 1 bf16 --x\n"), done.stderr


@pytest.mark.torchrun
def test_two_processes_on_cpu_are_two_and_the_first_failure_counts(script):
    done = launched("--cpu", "--num_processes", "2", "--mixed_precision", "no", script, "fail")
    assert sorted(done.stdout.splitlines()) == ["0 2 no fail", "1 2 no fail"]
    assert done.returncode == 7
    assert "process 1 of 2 failed first, with exit code 7" in done.stderr
