"""`accel launch`: what the command line means, and real launches."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel_runtime import launch, launch_plan
from accel_runtime.launch_arguments import parse
from accel_runtime.launch_notes import FOLDER, Note, Notes
from accel_runtime.launch_orphans import members
from accel_runtime.launch_report import failed
from accel_runtime.settings.errors import LaunchError

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


def noted(ended: int, **more) -> str:
    return json.dumps(asdict(Note(ended, **more)))


def launched(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": RUNTIME, "OMP_NUM_THREADS": "1", **settings}
    command = [sys.executable, "-m", "accel_runtime.launch", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "must hold a YAML mapping"),
        ("a: [", "config.yaml:1: not valid YAML"),
        ("num_processes: two", "num_processes: 'two' is not an integer"),
        ("mixed_precision: fp7", "mixed_precision: 'fp7' is not one of no, fp16, bf16, fp8"),
    ],
)
def test_bad_configuration_files(tmp_path, text, message):
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(LaunchError, match=message):
        parse(["--config_file", str(file), "x.py"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "no such script: missing.py is not there"),
        ([os.path.dirname(__file__)], "a folder without __main__.py"),
        ([], "no script was given"),
        (["-m", "no_such_module.main"], "there is no module no_such_module.main"),
        (["--no_python", __file__], "is no program"),
        (["--nproc", "2", __file__], "unknown option --nproc: the script's own options stand behind the script"),
        (["--num_processes", "0", __file__], "--num_processes: '0' is not an integer from 1 up"),
        (["--num_processes"], "--num_processes: expected one argument"),
        (["--mixed_precision", "fp7", __file__], "--mixed_precision: 'fp7' is not one of no, fp16, bf16, fp8"),
        (["--machine_rank", "1", __file__], "--machine_rank is 1 and --num_machines 1"),
        (["--main_process_port", "70000", __file__], "'70000' is not a port"),
        (["--monitor_interval", "0", __file__], "'0' is not a number of seconds above 0"),
        (["--max_restarts", "-1", __file__], "'-1' is not an integer from 0 up"),
        (["--gpu_ids", "0,,1", __file__], "neither 'all' nor numbers of devices"),
        (["--num_machines", "2", "--main_process_ip", "a", "--num_processes", "3", __file__], "does not divide among"),
        (["--num_machines", "2", __file__], "needs --main_process_ip"),
        (["--gpu_ids", "0,1", "--num_processes", "3", __file__], "it has 2 devices"),
    ],
)
def test_impossible_launches_are_one_line_and_exit_code_2(arguments, message, capsys):
    assert launch.main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_bare_no_in_a_file_is_the_precision(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("mixed_precision: no\nmain_process_port: 0\n")
    options = parse(["--config_file", str(file), "x.py"])
    assert (options.mixed_precision, options.main_process_port) == ("no", None)


def test_a_port_in_use_is_one_line_and_exit_code_2(script, capsys):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert launch.main(["--cpu", "--num_processes", "2", "--main_process_port", str(port), script]) == 2
    assert f"port {port} of this machine cannot be used" in capsys.readouterr().err


def test_the_first_failure_is_the_earliest_of_those_that_were_not_stopped(tmp_path):
    notes = Notes(str(tmp_path))
    for pid, ended in ((11, 300), (12, 200), (13, 100)):
        (tmp_path / str(pid)).write_text(noted(ended))
    failed = [SimpleNamespace(pid=pid, exitcode=code) for pid, code in ((11, 1), (12, 7), (13, -15))]
    assert notes.first(failed).pid == 12
    assert notes.first([*failed, SimpleNamespace(pid=14, exitcode=-9)]).pid == 14


def test_a_cause_that_is_still_ending_when_what_follows_is_seen_comes_first(tmp_path):
    cause = noted(100, traceback="Traceback\nKeyError: 'x'", shown=True, rank=1, attempt=1)
    follows = noted(200, traceback="Traceback\nRuntimeError: [gloo] closed", left_alone=True, rank=0, attempt=1)
    before = noted(50, traceback="Traceback\nOSError: gone", rank=2, attempt=0)
    for pid, text in ((11, cause), (12, follows), (10, before)):
        (tmp_path / str(pid)).write_text(text)
    for seen in ({}, {1: SimpleNamespace(pid=11, exitcode=-15)}):
        text, code = failed({0: SimpleNamespace(pid=12, exitcode=1), **seen}, Notes(str(tmp_path)), 3)
        assert (text, code) == ("accel launch: process 1 of 3 failed first, with exit code 1; the others were stopped\n", 1)


KILLED = """
import os, subprocess, sys
from accel_runtime.launch_orphans import watched
with watched("ACCEL_TEST_MARK=" + sys.argv[1]):
    child = subprocess.Popen(["sleep", "600"], env={**os.environ, "ACCEL_TEST_MARK": sys.argv[1]}, stdout=subprocess.DEVNULL, start_new_session=True)
    print(child.pid, flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="the system does not show environments")
@pytest.mark.parametrize("ends", ["killed", "well"])
def test_what_a_killed_launcher_has_started_ends_too(tmp_path, ends):
    mark = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", KILLED, mark, ends], env={**os.environ, "PYTHONPATH": RUNTIME}, stdout=subprocess.PIPE)
    child = int(done.stdout)
    if ends == "well":  # what a script leaves running on purpose is none of the launcher's business
        assert members(f"ACCEL_TEST_MARK={mark}") == [child]
        os.kill(child, signal.SIGKILL)
    while child in members(f"ACCEL_TEST_MARK={mark}"):
        time.sleep(0.05)


def test_a_main_machine_that_does_not_answer_is_one_line():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        options = parse(["--num_machines", "2", "--machine_rank", "1", "--main_process_ip", "127.0.0.1", "--rdzv_conf", "timeout=0", "--main_process_port", str(listening.getsockname()[1]), "x.py"])
        with pytest.raises(LaunchError, match=r"not answered at 127.0.0.1:\d+ within 0 seconds \(Connection refused\)"):
            launch_plan.await_main_machine(options, print)
        listening.listen()
        launch_plan.await_main_machine(options, print)


def test_what_follows_from_a_lost_peer_is_not_the_first_failure(tmp_path):
    notes = Notes(str(tmp_path))
    (tmp_path / "11").write_text(noted(300))
    (tmp_path / "12").write_text(noted(200, left_alone=True))
    caused, alone, aborted = (SimpleNamespace(pid=pid, exitcode=code) for pid, code in ((11, 1), (12, 1), (13, -6)))
    assert notes.first([alone, aborted, caused]).pid == 11
    assert notes.first([alone, aborted]).pid == 13


ALONE = """
from accel_runtime import launch_notes
launch_notes.take_part()
raise {error}
"""


@pytest.mark.parametrize(("error", "caused"), [("KeyError('the cause')", True), ("RuntimeError('[gloo/transport/tcp] Connection closed by peer')", False)])
def test_a_process_that_fails_before_it_meets_the_others_says_so(tmp_path, error, caused):
    failed = subprocess.Popen([sys.executable, "-c", ALONE.format(error=error)], env={**os.environ, "PYTHONPATH": RUNTIME, FOLDER: str(tmp_path)}, stderr=subprocess.DEVNULL)
    assert failed.wait() == 1
    aborted = SimpleNamespace(pid=13, exitcode=-6)
    assert (Notes(str(tmp_path)).first([aborted, SimpleNamespace(pid=failed.pid, exitcode=1)]) is not aborted) == caused


def test_threads_are_shared_out(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: range(8), raising=False)
    assert [launch_plan.threads(None, n) for n in (1, 2, 16)] == [None, 4, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert launch_plan.threads(None, 2) is None and launch_plan.threads(5, 2) == 5


def test_one_process_needs_no_process_group(script):
    done = launched("--cpu", "--num_processes", "1", "--mixed_precision", "bf16", script, "--x")
    assert (done.returncode, done.stdout) == (0, "0 1 bf16 --x\n"), done.stderr


@pytest.mark.torchrun
def test_two_processes_on_cpu_are_two_and_the_first_failure_counts(script, tmp_path):
    (tmp_path / "temporary").mkdir()
    done = launched("--cpu", "--num_processes", "2", "--mixed_precision", "no", script, "fail", TMPDIR=str(tmp_path / "temporary"))
    assert sorted(done.stdout.splitlines()) == ["0 2 no fail", "1 2 no fail"]
    assert done.returncode == 7
    assert done.stderr == "accel launch: process 1 of 2 failed first, with exit code 7; the others were stopped\n"
    assert os.listdir(tmp_path / "temporary") == []


FAILS = """
from accel_runtime import Accelerator
import torch, time
accelerator = Accelerator(cpu=True)
if accelerator.process_index == 1:
    raise KeyError("the cause")
accelerator.gather(torch.ones(1))
"""


@pytest.mark.torchrun
def test_the_traceback_of_the_first_failure_is_on_top(tmp_path):
    path = tmp_path / "fails.py"
    path.write_text(FAILS)
    done = launched("--cpu", "--num_processes", "2", str(path))
    first = next(line for line in done.stderr.splitlines() if "Error: " in line)
    assert done.returncode == 1 and "KeyError: 'the cause'" in first, done.stderr
    assert done.stderr.splitlines()[-1] == "accel launch: process 1 of 2 failed first, with exit code 1; the others were stopped"


WAITS = """
from accel_runtime import PartialState
import os, time
state = PartialState()
try:
    os.write(1, f"{os.getpid()}\\n".encode())
    for _ in range(600):  # a signal that comes just before a sleep begins is seen after it
        time.sleep(0.1)
except KeyboardInterrupt:
    if CATCH:
        os.write(1, b"caught\\n")
    else:
        raise
"""


@pytest.mark.torchrun
@pytest.mark.parametrize("catches", [False, True])
def test_an_interrupt_is_one_line_and_exit_code_130_unless_the_script_catches_it(tmp_path, catches):
    path = tmp_path / "waits.py"
    path.write_text(WAITS.replace("CATCH", str(catches)))
    command = [sys.executable, "-m", "accel_runtime.launch", "--cpu", "--num_processes", "2", "--max_restarts", "2", str(path)]
    env = {**os.environ, "PYTHONPATH": RUNTIME, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    pids = [int(process.stdout.readline()) for _ in range(2)]
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    if catches:
        assert (process.returncode, out, err) == (0, "caught\n" * 2, "")
    else:
        assert (process.returncode, out, err) == (130, "", "accel launch: interrupted; all processes have been stopped\n")
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
