"""Run jobs in forks of a warm process (`hooks.zygote`): torch is imported once for all runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from accel_migrate.verify.job import Job, Run, copy_job, file_states, written_since

PRELOADED = ("torch", "torch._dynamo", "torch.distributed", "numpy")
HANG_SECONDS = 15.0
_SHORT = 12
"""Letters of a folder's name: paths of sockets must stay short."""
_ZYGOTE = "accel_migrate.verify.hooks.zygote"


class ForkingRunner:
    """Runs jobs one after the other; a context manager, since it holds a process.

    `python` is the interpreter with torch, `preload` what to import before forking, `in_child` a "module:function"
    called in every process before its script, `path` folders to put on the path, `devices` whether runs may see any.
    """

    def __init__(
        self,
        scratch: Path,
        python: str = sys.executable,
        preload: Sequence[str] = PRELOADED,
        in_child: str | None = None,
        path: Sequence[str] = (),
        env: dict[str, str] | None = None,
        devices: bool = False,
    ) -> None:
        self.scratch = scratch
        self._command = [
            python,
            "-m",
            _ZYGOTE,
            *(["--in-child", in_child] if in_child else []),
            "--preload",
            *preload,
        ]
        seen = {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "")} if devices else {}
        self._env = {**os.environ, "PYTHONHASHSEED": "0", **single_threaded(), **seen, **(env or {})}
        if devices and "CUDA_VISIBLE_DEVICES" not in os.environ:
            del self._env["CUDA_VISIBLE_DEVICES"]
        known = os.environ.get("PYTHONPATH", "")
        self._env["PYTHONPATH"] = os.pathsep.join([*path, str(_packages(scratch)), *([known] if known else [])])
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

    def run(
        self,
        job: Job,
        processes: int = 1,
        *,
        timeout: float = 60.0,
        reverse_batches: bool = False,
        hang_seconds: float = HANG_SECONDS,
        trace: dict[str, Any] | None = None,
    ) -> Run:
        """Run a copy of the job's folder on `processes` ranks. One process runs as plain `python` would.

        It is ended after `timeout` seconds, and after `hang_seconds` in which none of its processes computed anything.
        `trace` are the settings of `hooks.tracing`; None traces nothing.
        """
        top = Path(tempfile.mkdtemp(prefix=f"{job.folder.name[:_SHORT]}-{processes}-", dir=self.scratch))
        folder, out, temporary = top / "files", top / "streams", top / "tmp"
        temporary.mkdir()
        before = copy_job(job, folder)
        out.mkdir()
        answer = self._ask(
            script=str(folder / job.script),
            module=job.module,
            home=str(folder / job.home),
            args=list(job.args),
            cwd=str(folder / job.cwd),
            env={"TMPDIR": str(temporary), **job.env},
            processes=processes,
            distributed=processes > 1 or job.distributed,
            timeout=timeout,
            hang_seconds=hang_seconds,
            out=str(out),
            reverse_batches=reverse_batches,
            trace=None if trace is None else {**trace, "folder": str(folder), "temporary": str(temporary), "home": str(job.folder)},
        )
        return Run(
            folder=folder,
            exit_code=next((code for code in answer["exit_codes"] if code), 0),
            lines=tuple(line for rank in range(processes) for line in _text(out / f"rank{rank}.out").splitlines()),
            errors="\n".join(_text(out / f"rank{rank}.{kind}") for rank in _first_cause_last(answer, processes) for kind in ("stack", "err")),
            written=written_since(folder, before),
            seconds=answer["seconds"],
            timed_out=answer["timed_out"],
            streams=out,
            exit_codes=tuple(answer["exit_codes"]),
            first_failed=answer["first_failed"],
            hung=answer["hung"],
            temporary=temporary,
            wrote_temporary=tuple(file_states(temporary)),
        )

    def call(self, function: str, **arguments: Any) -> Any:
        """What `function` ("module:name") returns in a fork; arguments and result are JSON.

        Raises:
            RuntimeError: it failed; the text is its traceback.
        """
        answer = self._ask(call=function, arguments=arguments)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process is not None and self._process.stdin is not None, "use it as a context manager"
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the interpreter that runs the scripts ended with code {self._process.wait()}: {' '.join(self._command)}")
        return json.loads(line)


def _packages(scratch: Path) -> Path:
    """A folder with nothing but links to this project's packages, for the path of another interpreter."""
    folder = scratch / "packages"
    folder.mkdir(exist_ok=True)
    for name in ("accel_migrate", "accel_runtime"):
        spec = find_spec(name)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        if places and not (folder / name).is_symlink():
            (folder / name).symlink_to(os.path.abspath(places[0]))
    return folder


def _first_cause_last(answer: dict[str, Any], processes: int) -> list[int]:
    """The ranks; last the one which failed first, since the others may have failed because of it."""
    return sorted(range(processes), key=lambda rank: rank == answer["first_failed"])


def single_threaded() -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
