"""Run jobs in forks of a warm process (`zygote`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from e2e.job import PYTHON_PATH, Job, Run, copy_to_scratch, written_since

PRELOADED = (
    "torch",
    "torch._dynamo",
    "torch.distributed",
    "numpy",
    "sklearn.datasets",
    "torch.utils.tensorboard",
    "tqdm",
)


class ForkingRunner:
    """Runs jobs one after the other; a context manager, since it holds a process.

    `python` is the interpreter with torch, `preload` what to import before forking, `in_child` a "module:function"
    called in every process before its script, `path` folders to put on the path.
    """

    def __init__(
        self,
        scratch: Path,
        python: str = sys.executable,
        preload: Sequence[str] = PRELOADED,
        in_child: str | None = None,
        path: Sequence[str] = (),
        env: dict[str, str] | None = None,
    ) -> None:
        self.scratch = scratch
        self._command = [
            python,
            "-m",
            "e2e.zygote",
            *(["--in-child", in_child] if in_child else []),
            "--preload",
            *preload,
        ]
        self._env = {**os.environ, **single_threaded(), **(env or {})}
        self._env["PYTHONPATH"] = os.pathsep.join([*path, PYTHON_PATH])
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ForkingRunner:
        self._process = subprocess.Popen(
            self._command, cwd=self.scratch, env=self._env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def run(self, job: Job, processes: int = 1, *, timeout: float = 60.0, reverse_batches: bool = False) -> Run:
        """Run a copy of the job's folder on `processes` ranks. One process runs as plain `python` would."""
        top = Path(tempfile.mkdtemp(prefix=f"{job.folder.name}-{processes}-", dir=self.scratch))
        folder, out = top / "files", top / "streams"
        before = copy_to_scratch(job.folder, folder)
        out.mkdir()
        answer = self._ask(
            script=str(folder / job.script),
            args=list(job.args),
            cwd=str(folder / job.cwd),
            env=job.env,
            processes=processes,
            timeout=timeout,
            out=str(out),
            reverse_batches=reverse_batches,
        )
        return Run(
            folder=folder,
            exit_code=next((code for code in answer["exit_codes"] if code), 0),
            lines=tuple(line for rank in range(processes) for line in _text(out / f"rank{rank}.out").splitlines()),
            errors="\n".join(_text(out / f"rank{rank}.err") for rank in _first_cause_last(answer, processes)),
            written=written_since(folder, before),
            seconds=answer["seconds"],
            timed_out=answer["timed_out"],
        )

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None, "use it as a context manager"
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the warm process ended with code {self._process.wait()}: {' '.join(self._command)}")
        return json.loads(line)


def _first_cause_last(answer: dict[str, Any], processes: int) -> list[int]:
    """The ranks; last the one which failed first, since the others may have failed because of it."""
    return sorted(range(processes), key=lambda rank: rank == answer["first_failed"])


def single_threaded() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
