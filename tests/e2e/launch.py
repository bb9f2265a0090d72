"""Run jobs as a user would: `python SCRIPT`, or `torchrun SCRIPT` on several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from accel_migrate.verify.job import Job, Run, copy_to_scratch, written_since
from accel_migrate.verify.warm import single_threaded
from e2e.places import PYTHON_PATH


def run(job: Job, processes: int, scratch: Path, *, timeout: float = 120.0, python: str = sys.executable) -> Run:
    """Run a copy of the job's folder in fresh interpreters; ends its whole process group after `timeout` seconds."""
    top = Path(tempfile.mkdtemp(prefix=f"{job.folder.name}-{processes}-", dir=scratch))
    folder = top / "files"
    before = copy_to_scratch(job.folder, folder)
    env = {**os.environ, **single_threaded(), "PYTHONPATH": PYTHON_PATH, **job.env}
    command = [*_launcher(python, processes, top), str(folder / job.script), *job.args]
    started = time.monotonic()
    code, out, errors = _run_group(command, folder / job.cwd, env, timeout)
    return Run(
        folder=folder,
        exit_code=1 if code is None else code,
        lines=tuple(out.splitlines()),
        errors=errors,
        written=written_since(folder, before),
        seconds=time.monotonic() - started,
        timed_out=code is None,
    )


def _launcher(python: str, processes: int, top: Path) -> list[str]:
    if processes == 1:
        return [python]
    # `--standalone` picks a free port itself; without `--log-dir` a folder in the system's temporary one stays.
    return [python, "-m", "torch.distributed.run", "--standalone", "--log-dir", str(top / "agent"), "--nproc_per_node", str(processes)]


def _run_group(command: list[str], cwd: Path, env: dict[str, str], timeout: float) -> tuple[int | None, str, str]:
    """Exit code, None after a timeout, and both outputs."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=timeout)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        return None, out, errors
